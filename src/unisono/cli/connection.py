"""Finds the control plane that a command means, and opens a client to it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from unisono.errors import ApiError, UnisonoError

if TYPE_CHECKING:
    from unisono.cli.options import Where
    from unisono.kube.http import HttpClient
    from unisono.kube.kubeconfig import ClusterConfig

T = TypeVar("T")


class NoControlPlane(UnisonoError):
    """No control plane is running here and no cluster was named."""


def find(where: Where) -> ClusterConfig:
    """The cluster that ``where`` means.

    As ``kubectl unisono``, what kubectl would take. Else, in this order: ``--kubeconfig``; ``--data-dir``; a running
    control plane in the default data directory; ``$KUBECONFIG`` or ``~/.kube/config``.

    Raises:
        NoControlPlane: nothing of that exists.
        ConfigError: the kubeconfig cannot be used.

    """
    from unisono.kube.kubeconfig import load
    from unisono.standalone.paths import DataDir

    if where.kubeconfig or where.kubectl:
        return load(where.kubeconfig, context=where.context)
    data = DataDir.at(where.data_dir)
    if where.data_dir and not data.kubeconfig.exists():
        raise NoControlPlane(
            f"There is no control plane in {where.data_dir}: start one with 'unisono up --data-dir {where.data_dir}'."
        )
    if where.data_dir or data.running_pid() is not None:
        return load(data.kubeconfig, context=where.context)
    if os.environ.get("KUBECONFIG") or (Path.home() / ".kube" / "config").exists():
        return load(None, context=where.context)
    raise NoControlPlane(
        "No control plane is running: start one with 'unisono up', or name a cluster with --kubeconfig."
    )


@asynccontextmanager
async def connect(where: Where) -> AsyncIterator[HttpClient]:
    """A client to the control plane that ``where`` means, closed at the end."""
    from unisono.kube.command_transport import CommandTransport
    from unisono.kube.http import HttpClient

    config = find(where)
    client = HttpClient(config, transport=CommandTransport(config))
    try:
        yield client
    except ApiError as error:
        from unisono.cli.near_objects import tell_near_object

        # The hint is a help beside the answer: without it the answer is the same.
        with suppress(UnisonoError, OSError):
            await tell_near_object(client, error, namespace_of(where))
        raise
    finally:
        await client.close()


def namespace_of(where: Where) -> str:
    """Namespace for objects that name none: the flag's, else the context's, else ``default``."""
    return where.namespace or find(where).namespace or "default"


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run one command's coroutine to its end."""
    try:
        import asyncio

        return asyncio.run(work)
    finally:
        # Ctrl-C may come before it has begun.
        work.close()
