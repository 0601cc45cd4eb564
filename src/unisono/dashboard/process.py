"""The process that serves the dashboard of ``unisono up`` on a socket that it is given."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

from unisono.dashboard.live.configuration import ConfigurationPlaces
from unisono.dashboard.server import DashboardServer
from unisono.kube.clock import SYSTEM_CLOCK
from unisono.kube.kubeconfig import load
from unisono.standalone.logs import configure_logs

# No page has been open for so long: the process gives its memory back.
_IDLE_SECONDS = 1800.0
_LOOK_SECONDS = 30.0


async def serve(bound: socket.socket, kubeconfig: Path, codes: Path, scheduler: Path | None) -> None:
    """Serve until a signal, the end of the process that started this one, or a long time without a viewer."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stopped.set)
    loop.add_reader(0, stopped.set)  # nothing is ever written there: it is readable when it was closed
    server = DashboardServer(load(kubeconfig), bound=bound, codes=codes, places=ConfigurationPlaces(file=scheduler))
    await server.start()
    try:
        while not stopped.is_set():
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await stopped.wait()
            except TimeoutError:
                idle = server.sessions.idle_since
                if idle is not None and SYSTEM_CLOCK.monotonic() - idle > _IDLE_SECONDS:
                    return
    finally:
        await server.stop()


def main(words: list[str]) -> None:
    """``FD KUBECONFIG CODES [CONFIGURATION]``."""
    number, kubeconfig, codes, *scheduler = words
    os.set_inheritable(int(number), False)
    configure_logs(None)
    asyncio.run(
        serve(
            socket.socket(fileno=int(number)), Path(kubeconfig), Path(codes), Path(scheduler[0]) if scheduler else None
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
