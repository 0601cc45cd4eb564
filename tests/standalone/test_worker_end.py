"""The process of scheduler and controllers ends soon, whatever it computes and however much it holds."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from unisono.standalone.worker_process import Channel, News, Question, Settings

PARTS = """
import asyncio, signal, threading
from unisono.standalone import background

class Work:
    # One part waits for a thread that does not end, as of a long cycle; one does not let itself be cancelled.
    def __init__(self, *_, **__):
        self.parts = {"computes": self.compute, "clings": self.cling}

    def unready(self):
        return []

    async def compute(self):
        await asyncio.to_thread(threading.Event().wait)

    async def cling(self):
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass

background.Work = Work
from unisono.standalone import background_process
background_process._END_SECONDS = 0.1
background_process.main()
"""


@pytest.mark.parametrize("how", ["SIGTERM", "closed channel"])
async def test_a_part_that_does_not_end_does_not_hold_the_process(how: str, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        worker = subprocess.Popen([sys.executable, "-c", PARTS, str(theirs.fileno())], pass_fds=(theirs.fileno(),))
    channel = await Channel.on(ours)
    try:
        channel.tell(Settings(parent=os.getpid(), socket=str(tmp_path / "api"), token="t"))
        channel.tell(Question(1))
        # It answers, so its parts have begun.
        assert await channel.hear(News) is not None
        if how == "SIGTERM":
            worker.send_signal(signal.SIGTERM)
        else:
            channel.close()
        assert await asyncio.to_thread(worker.wait, 60.0) == 0
    finally:
        channel.close()
        worker.kill()
        worker.wait()
