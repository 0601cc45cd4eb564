"""The dashboard of ``unisono up``: its port is held all the time, and a process serves it while a page is open."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

from unisono.apiserver.access.files import bind
from unisono.dashboard.codes import leave_code
from unisono.errors import ConfigError
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.lazy_logs import LazyLogger
from unisono.standalone.paths import DataDir

_log = LazyLogger(__name__)

_HOST = "127.0.0.1"
# After a process that ended at once.
_PAUSE_SECONDS = 10.0
_STOP_SECONDS = 10.0


def codes_of(data: DataDir) -> Path:
    """Where commands of the owner leave one-time codes."""
    return data.root / "run" / "dashboard-codes"


def port_file(data: DataDir) -> Path:
    """Tells commands the port, and the next start which one to take again."""
    return data.root / "run" / "dashboard-port"


def link_of(data: DataDir) -> str | None:
    """A link that signs in once at the dashboard of a running ``unisono up``; None where it has none.

    Raises:
        OSError: this user may not leave a code there.
    """
    if data.running_pid() is None or not (port := _last_port(data)):
        return None
    return f"http://{_HOST}:{port}/#code={leave_code(codes_of(data))}"


def forget_port(data: DataDir) -> None:
    """A control plane without a dashboard runs: no link may lead to where one was."""
    port_file(data).unlink(missing_ok=True)


class Activation:
    """Holds the port; the first connection starts a process that gets the socket and ends when no page is open.

    Args:
        data: of the control plane.
        log: where the process writes; None for standard error.
        scheduler: file of the scheduler's configuration; None for the default.
        clock: of this process.

    Attributes:
        url: of the page.
    """

    def __init__(
        self, data: DataDir, log: Path | None, *, scheduler: Path | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._data, self._log, self._scheduler, self._clock = data, log, scheduler, clock
        self._socket: socket.socket | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    async def start(self) -> None:
        """Listen, on the port of last time if it is free.

        Raises:
            ConfigError: nothing can be listened on.
        """
        last_port = _last_port(self._data)
        try:
            listener = bind(_HOST, last_port)
        except ConfigError:
            listener = bind(_HOST, 0)
        listener.setblocking(False)
        port = listener.getsockname()[1]
        file = port_file(self._data)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_text(str(port))
        self._socket, self.url = listener, f"http://{_HOST}:{port}"
        self._keeping = asyncio.create_task(self._keep(listener))

    async def stop(self) -> None:
        """End the process and give the port back."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def _keep(self, listening: socket.socket) -> None:
        try:
            while True:
                await _readable(listening)
                began = self._clock.monotonic()
                self._process = self._started(listening)
                code = await _ended(self._process)
                self._process = None
                if code or self._clock.monotonic() - began < 1.0:
                    _log.warning("dashboard.ended", code=code)
                    await self._clock.sleep(_PAUSE_SECONDS)
        finally:
            if self._process is not None:
                self._end(self._process)

    def _started(self, listening: socket.socket) -> subprocess.Popen[bytes]:
        output: IO[bytes] | None = None if self._log is None else self._log.open("ab")
        try:
            return subprocess.Popen(
                [
                    sys.executable, "-m", "unisono.dashboard.process", str(listening.fileno()),
                    str(self._data.kubeconfig), str(codes_of(self._data)),
                    *([str(self._scheduler.absolute())] if self._scheduler is not None else []),
                ],
                stdin=subprocess.PIPE,  # its end tells the process that this one is gone
                stdout=output,
                stderr=output,
                pass_fds=[listening.fileno()],
                start_new_session=True,
            )  # fmt: skip
        finally:
            if output is not None:
                output.close()

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


async def _readable(listening: socket.socket) -> None:
    """Return when a connection waits."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(listening, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(listening)


async def _ended(process: subprocess.Popen[bytes]) -> int:
    """The exit code, when there is one."""
    while (code := process.poll()) is None:  # noqa: ASYNC110 - a process has to be polled
        await asyncio.sleep(0.5)
    if process.stdin is not None:
        process.stdin.close()
    return code


def _last_port(data: DataDir) -> int:
    try:
        text = port_file(data).read_text().strip()
    except OSError:
        return 0
    return int(text) if text.isdigit() and int(text) < 65536 else 0
