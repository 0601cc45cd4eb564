"""Finds the control plane that a command means, and opens a client to it."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from unisono.api.names import nearest
from unisono.errors import ApiError, UnisonoError

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.cli.options import Where
    from unisono.kube.http import HttpClient
    from unisono.kube.kubeconfig import ClusterConfig

# Adds to "not found" what the user probably meant: the object whose name is near, or the queues that there are.

# As Kubernetes words it, alone or within another message: jobs.batch.volcano.sh "train" not found.
_NOT_FOUND = re.compile(r'([a-z]+)((?:\.[a-z0-9-]+)*) "([^"]{1,253})" not found')
_MOST_LOOKED_AT = 500
_MOST_QUEUES = 6


async def tell_near_object(client: HttpClient, error: ApiError, namespace: str) -> None:
    """Let the message of a refusal name the object that was probably meant; nothing changes where none is near.

    Args:
        client: the server that refused.
        error: its refusal, which gets another ``message``.
        namespace: where the object was looked for.
    """
    match = _NOT_FOUND.search(error.message)
    kind = match and _kind(match[1], match[2].removeprefix("."))
    if not match or kind is None:
        return
    path = kind.path(namespace if kind.namespaced else None)
    status, _, body = await client.request("GET", path, params={"limit": str(_MOST_LOOKED_AT)})
    if status == 200:
        names = _names(body)
        suggestion = hint(kind, match[3], names) or await whereabouts(client, match[3], namespace, (kind,))
        error.message += suggestion or begun(kind, match[3], names)
        error.args = (error.message,)


async def whereabouts(client: HttpClient, name: str, namespace: str, kinds: Sequence[Kind[Any]]) -> str:
    """Where an object of this very name is that was not found: of another kind, or in another namespace.

    Args:
        client: the server.
        name: as the user wrote it.
        namespace: where it was looked for.
        kinds: of which it was looked for; nothing is said where none of them has pods.
    """
    from unisono.api.kinds import JOBS, PODS

    if not any(kind in (JOBS, PODS) for kind in kinds):
        return ""
    for kind in dict.fromkeys((*kinds, JOBS, PODS)):
        params = {"fieldSelector": f"metadata.name={name}", "limit": "1"}
        for place in (namespace, None):
            status, _, body = await client.request("GET", kind.path(place), params=params)
            spaces = [space for space, found in _places(body) if found == name] if status == 200 else []
            if spaces:
                there = "" if place or spaces[0] == namespace else f" in namespace {spaces[0]}: add -n {spaces[0]}"
                return f"; there is {kind.kind.lower()}/{name}{there}"
    return ""


def hint(kind: Kind[Any], name: str, known: Iterable[str]) -> str:
    """``; did you mean job/train?``, or for queues the names of all where they are few; empty where nothing helps.

    Args:
        kind: of the object that does not exist.
        name: as the user wrote it.
        known: names of those that exist.
    """
    from unisono.api.kinds import QUEUES

    names = sorted(known)
    near = nearest(name, names)
    if near:
        return f"; did you mean {kind.kind.lower()}/{near}?"
    if kind is QUEUES and names:
        more = f" and {len(names) - _MOST_QUEUES} more" if len(names) > _MOST_QUEUES else ""
        return f"; queues are: {', '.join(names[:_MOST_QUEUES])}{more}"
    return ""


def begun(kind: Kind[Any], name: str, known: Iterable[str]) -> str:
    """``; did you mean job/train?`` where one name begins so, and the names where several do."""
    matches = sorted(one for one in known if one.startswith(name))
    if len(matches) == 1:
        return f"; did you mean {kind.kind.lower()}/{matches[0]}?"
    more = f" and {len(matches) - _MOST_QUEUES} more" if len(matches) > _MOST_QUEUES else ""
    return f"; names that begin so: {', '.join(matches[:_MOST_QUEUES])}{more}" if matches else ""


def _kind(word: str, group: str) -> Kind[Any] | None:
    from unisono.api.kinds import ALL_KINDS

    for kind in ALL_KINDS:
        if kind.group == group and word in (kind.plural, kind.kind.lower()):
            return kind
    return None


def _names(body: bytes) -> list[str]:
    return [name for _, name in _places(body)]


def _places(body: bytes) -> list[tuple[str, str]]:
    """Namespaces and names of listed objects."""
    import msgspec

    try:
        items = msgspec.json.decode(body)["items"]
        return [(str(item["metadata"].get("namespace", "")), str(item["metadata"]["name"])) for item in items]
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return []


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
        # The hint is a help beside the answer: without it the answer is the same.
        with suppress(UnisonoError, OSError):
            await tell_near_object(client, error, namespace_of(where))
        raise
    finally:
        await client.close()


def namespace_of(where: Where) -> str:
    """Namespace for objects that name none: the flag's, else the context's, else ``default``."""
    return where.namespace or find(where).namespace or "default"
