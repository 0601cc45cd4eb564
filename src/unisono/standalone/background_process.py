"""``python -m unisono.standalone.background_process FD``: all that runs beside the API's process.

Scheduler, controllers and simulated nodes speak Kubernetes' HTTP to the API by a local socket. ``FD`` is its
end of the channel to the process that serves; it ends with that process.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unisono.kube.client import Client
    from unisono.standalone.component import PartMetrics
    from unisono.standalone.worker_process import Channel, Settings

# Where there are more who want to run than processors, the API answers first.
_NICENESS = 5
_PR_SET_PDEATHSIG = 1
# Seconds that the parts have together to write what waits, such as events; the serving process kills after 10.
_END_SECONDS = 5.0


async def work(end: socket.socket) -> None:
    """Work until the other side of the channel is gone, or SIGTERM."""
    from unisono.agent.simulated.specs import parse_specs
    from unisono.kube.clock import SYSTEM_CLOCK
    from unisono.kube.pace import Backoff
    from unisono.scheduler.settings import FileConfig, FixedConfig
    from unisono.standalone.background import Work
    from unisono.standalone.component import PartMetrics, keep_running
    from unisono.standalone.logs import configure_logs
    from unisono.standalone.loop import set_pace
    from unisono.standalone.worker_process import Channel, News, Settings

    channel = await Channel.on(end)
    settings = await channel.hear(Settings)
    if settings is None or not _bound_to(settings.parent):
        return
    configure_logs(Path(settings.log_file) if settings.log_file else None, level=settings.log_level)
    metrics = PartMetrics()
    source = FileConfig(Path(settings.scheduler_config)) if settings.scheduler_config else FixedConfig()
    done = Work(
        lambda program: _client(settings, program),
        source,
        parse_specs(list(settings.nodes)),
        metrics,
        lambda: channel.tell(News(unready=done.unready())),
        most_pods=settings.most_pods,
        fleet=settings.fleet,
        record=Path(settings.record) if settings.record else None,
        history=Path(settings.history) if settings.history else None,
        history_days=settings.history_days,
    )
    tasks = [
        asyncio.create_task(
            keep_running(name, part, SYSTEM_CLOCK, Backoff(base=0.2, cap=30.0), lambda: False), name=name
        )
        for name, part in done.parts.items()
    ]
    set_pace()
    answering = asyncio.ensure_future(_answer(channel, metrics))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, answering.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await answering
    finally:
        # The last part first, as they stop where all is one process.
        deadline = SYSTEM_CLOCK.monotonic() + _END_SECONDS
        for task in reversed(tasks):
            task.cancel()
            await asyncio.wait((task,), timeout=max(0.0, deadline - SYSTEM_CLOCK.monotonic()))
        channel.close()


async def _answer(channel: Channel, metrics: PartMetrics) -> None:
    from prometheus_client import CollectorRegistry, generate_latest

    from unisono.standalone.worker_process import News, Question

    registry = CollectorRegistry()
    registry.register(metrics)
    while (question := await channel.hear(Question)) is not None:
        channel.tell(News(number=question.number, metrics=generate_latest(registry).decode()))


def _client(settings: Settings, program: str) -> Client:
    from unisono.kube.http import HttpClient
    from unisono.kube.kubeconfig import ClusterConfig
    from unisono.kube.transport import Transport

    # The host means nothing: the socket is the way.
    config = ClusterConfig(server="http://localhost", token=settings.token)
    return HttpClient(config, transport=Transport(config, socket=Path(settings.socket), program=program))


def _bound_to(parent: int) -> bool:
    """Have the kernel end this process with its parent, where it can; False when that is gone already.

    The channel says it, too; but a process that computes for long does not listen.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


async def _work_and_leave(end: socket.socket) -> None:
    """Work, then end the process at once.

    Nothing is left to write, and an orderly exit takes long: Python waits for the thread of a cycle whose result is not
    needed, and its collector walks through the whole state several times, 5 s for 14,000 pods on a busy machine.
    """
    await work(end)
    sys.stderr.flush()
    os._exit(0)


def main() -> None:
    """Read the arguments and work."""
    # Ctrl-C reaches every process of the terminal; this one ends when the one that serves says so. That holds from the
    # start, so that what is large is read only after this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from unisono.standalone import loop

    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    loop.run(_work_and_leave(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
