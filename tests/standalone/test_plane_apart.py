"""A control plane of two processes: the API outlives scheduler and controllers, and they come back."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from pathlib import Path

from test_plane import NODES, completed, job, ready

from unisono.api.kinds import JOBS, PODS
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load
from unisono.standalone.paths import DataDir
from unisono.standalone.plane import Plane, PlaneOptions

PATIENCE = 600


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_the_api_outlives_its_worker_which_starts_anew(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    plane = Plane(data, PlaneOptions(local_node=False, simulated_nodes=NODES, apart=True, log_level="warning"))
    await plane.start()
    client = HttpClient(load(data.kubeconfig))
    try:
        async with asyncio.timeout(PATIENCE):
            await plane.wait_ready()
            first = plane.worker_pid
            assert first not in (0, os.getpid())
            await client.create(JOBS, job("first"))
            assert (await completed(client, "first")).status.succeeded == 2
            # A worker that does not answer in time is left out of one answer.
            while b"volcano_e2e_scheduling_latency_milliseconds" not in (
                metrics := (await client.request("GET", "/metrics"))[2]
            ):
                await asyncio.sleep(0.01)
            assert b"apiserver_request_total" in metrics, "of this process"
            os.kill(first, signal.SIGKILL)
            while plane.worker_pid == first and (await client.request("GET", "/readyz"))[0] == 200:
                await asyncio.sleep(0.01)
            assert len((await client.list(PODS)).items) == 2, "the API answers without it"
            await client.create(JOBS, job("second"))
            await ready(client)
            assert (await completed(client, "second")).status.succeeded == 2
            assert plane.worker_pid not in (0, first)
    finally:
        await client.close()
        last = plane.worker_pid
        await plane.stop()
    assert gone(last), "it ends with the plane"


async def test_its_socket_is_for_the_owner_alone_and_asks_who_is_there(tmp_path: Path) -> None:
    from unisono.kube.kubeconfig import ClusterConfig
    from unisono.kube.transport import Transport

    # Too long for a socket: another folder is taken.
    for folder in (tmp_path / "short", tmp_path / ("long" * 30)):
        data = DataDir(folder)
        plane = Plane(data, PlaneOptions(local_node=False, apart=True, log_level="error"))
        await plane.start()
        socket = plane.socket
        transport = Transport(ClusterConfig("http://localhost"), socket=socket)
        try:
            assert stat.S_IMODE(socket.stat().st_mode) == 0o600
            assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
            status, _, _ = await transport.request("GET", "/api/v1/namespaces/default/pods")
            assert status == 403, "nobody without a token"
        finally:
            await transport.close()
            await plane.stop()
        assert not socket.exists()
