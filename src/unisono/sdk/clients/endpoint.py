"""Which control plane a client talks to: a named one, the one that runs here, the pod's cluster, or a private one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unisono.errors import ApiError
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig, in_cluster, load
from unisono.sdk.errors import NoControlPlane
from unisono.standalone.paths import DataDir

# A start takes two seconds, and very much longer where many others want the same processors.
START_SECONDS = 180.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Where:
    """What a user said about the control plane; nothing of it: the rules of `find` decide.

    Attributes:
        kubeconfig: a kubeconfig file.
        context: a context of it.
        data_dir: directory of a control plane of this machine.
        in_cluster: the cluster of the pod that this process runs in.
        private: a control plane for this client alone.
        nodes: simulated nodes ``{name, count, capacity, labels, taints}`` for the private one.
        local_node: the private one runs pods as processes of this machine.
    """

    kubeconfig: str | os.PathLike[str] | None = None
    context: str | None = None
    data_dir: str | os.PathLike[str] | None = None
    in_cluster: bool = False
    private: bool = False
    nodes: Sequence[Mapping[str, Any]] = ()
    local_node: bool = True


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A control plane that was found.

    Attributes:
        config: how to reach it.
        local: it runs pods on this machine, so that paths of this machine mean something to them.
        private: it belongs to this client, and goes with it.
    """

    config: ClusterConfig
    local: bool
    private: PrivatePlane | None = None


async def find(where: Where) -> Endpoint:
    """The control plane that ``where`` means.

    In this order: what is named; the control plane that runs in the default data directory; inside a pod its cluster;
    a private one, which is started.

    Raises:
        NoControlPlane: the named one does not exist, two are named, or the private one does not start.
        ConfigError: the kubeconfig cannot be used.
    """
    named = [
        name
        for name, given in (
            ("kubeconfig", where.kubeconfig),
            ("data_dir", where.data_dir),
            ("in_cluster", where.in_cluster),
            ("private", where.private or where.nodes or not where.local_node),
        )
        if given
    ]
    if len(named) > 1:
        raise NoControlPlane(f"{' and '.join(named)} name different control planes: give one of them.")
    if where.kubeconfig is not None:
        return Endpoint(load(where.kubeconfig, context=where.context), local=False)
    if where.in_cluster:
        return Endpoint(in_cluster(), local=False)
    data = DataDir.at(Path(where.data_dir) if where.data_dir is not None else None)
    if where.data_dir is not None and not data.kubeconfig.exists():
        raise NoControlPlane(
            f"There is no control plane in {where.data_dir}: start one with 'unisono up --data-dir {where.data_dir}'."
        )
    if not named and data.running_pid() is None:
        if os.environ.get("KUBERNETES_SERVICE_HOST"):
            return Endpoint(in_cluster(), local=False)
        named = ["private"]
    if "private" in named:
        plane = await PrivatePlane.start(where.nodes, local_node=where.local_node)
        return Endpoint(load(plane.data.kubeconfig), local=True, private=plane)
    return Endpoint(load(data.kubeconfig, context=where.context), local=True)


class PrivatePlane:
    """A control plane in a process of its own, which ends with this one."""

    def __init__(self, data: DataDir, process: subprocess.Popen[bytes]) -> None:
        self.data, self._process = data, process

    @classmethod
    async def start(cls, nodes: Sequence[Mapping[str, Any]], *, local_node: bool) -> PrivatePlane:
        """Start it; returns when every part is at work.

        Raises:
            NoControlPlane: it ended at once or did not become ready.
        """
        folder = Path(tempfile.mkdtemp(prefix="unisono-"))
        data = DataDir(folder)
        options = json.dumps({"local_node": local_node, "simulated_nodes": [dict(node) for node in nodes]})
        plane = cls(data, _spawn(folder, options))
        try:
            async with asyncio.timeout(START_SECONDS):
                await plane._ready()
        except TimeoutError:
            await plane.stop()
            raise NoControlPlane(f"The private control plane was not ready within {START_SECONDS:g} s.") from None
        except BaseException:
            await plane.stop()
            raise
        return plane

    async def stop(self) -> None:
        """End it with its pods, and take its folder away."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        # No thread waits for it: at the end of the program, when clients are closed, none can be started any more.
        try:
            async with asyncio.timeout(STOP_SECONDS):
                while self._process.poll() is None:  # noqa: ASYNC110 - a process has to be polled
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.data.root, ignore_errors=True)

    async def _ready(self) -> None:
        while not self.data.kubeconfig.exists():
            await self._pause()
        client = HttpClient(load(self.data.kubeconfig))
        try:
            while True:
                with suppress(ApiError):
                    if (await client.request("GET", "/readyz"))[0] == 200:
                        return
                await self._pause()
        finally:
            await client.close()

    async def _pause(self) -> None:
        if self._process.poll() is not None:
            log_lines = (self.data.root / "start.log").read_text(errors="replace").strip().splitlines()
            reason = log_lines[-1] if log_lines else f"exit code {self._process.returncode}"
            raise NoControlPlane(f"The private control plane ended at once: {reason}")
        await asyncio.sleep(POLL_SECONDS)


def _spawn(folder: Path, options: str) -> subprocess.Popen[bytes]:
    with (folder / "start.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "unisono.sdk.clients.private_plane", str(folder), options],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in the terminal is for the program, which then ends its plane
        )
