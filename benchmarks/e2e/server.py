"""``python -m benchmarks.e2e.server DIR``: an embedded API server alone, until SIGTERM; writes ``DIR/kubeconfig``."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry, ProcessCollector

from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.standalone.logs import configure_logs
from unisono.standalone.pace import set_pace


async def serve(directory: Path) -> None:
    """Serve until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    backend = await Backend.open(directory / "state.db")
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
    asyncio.run(serve(Path(sys.argv[1])))
