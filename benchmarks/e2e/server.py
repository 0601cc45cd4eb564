"""``python -m benchmarks.e2e.server DIR [NODES PODS]``: an embedded API server alone, until SIGTERM.

It writes ``DIR/kubeconfig`` when it serves. With numbers it holds so many nodes and running pods from the start.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry, ProcessCollector

from benchmarks.e2e import load
from unisono.apiserver.backend import Backend
from unisono.apiserver.local import LocalClient
from unisono.apiserver.server import ApiServer
from unisono.standalone.logs import configure_logs
from unisono.standalone.loop import set_pace


async def serve(directory: Path, nodes: int = 0, pods: int = 0) -> None:
    """Serve until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    backend = await Backend.open(directory / "state.db")
    if nodes:
        # Not over the wire: that would take longer than all that is measured.
        client = LocalClient(backend.service)
        await load.furnish(client, await load.new_namespace(client, "bench-old-"), nodes, pods)
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    server = ApiServer(backend.service, data_dir=directory, registry=registry)
    try:
        await server.start()
        set_pace()
        await stopped.wait()
    finally:
        await server.stop()
        await backend.close()


if __name__ == "__main__":
    configure_logs(level="warning")
    asyncio.run(serve(Path(sys.argv[1]), *map(int, sys.argv[2:])))
