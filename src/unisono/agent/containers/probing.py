"""Probes and hooks of a container: one try of each kind, and how they are tried again while it lives."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from unisono.agent.access import enter
from unisono.agent.layout import RunDir
from unisono.agent.lifecycle import Reason
from unisono.agent.spawner.client import Spawner
from unisono.api.core import Container, ExecAction, HTTPGetAction, LifecycleHandler, Probe, TCPSocketAction
from unisono.errors import AgentError
from unisono.kube.clock import Clock

# One try of a probe or one run of a hook: exec, tcpSocket, httpGet, sleep.

_HEAD_BYTES = 4096
# As much as a pipe may hold. A process that a command has left behind may write for ever.
_PIPE_BYTES = 1 << 20
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a check succeeded, and what it said otherwise."""

    success: bool
    message: str = ""


class Checks:
    """Checks of one running container.

    Args:
        container: whose named ports are meant.
        address: the pod's address.
        run: the container's present run; exec enters its namespaces.
        spec: what its shim was told.
        spawner: starts processes.
    """

    def __init__(
        self, container: Container, address: str, run: RunDir, spec: Mapping[str, Any], spawner: Spawner
    ) -> None:
        self._container, self._address, self._run, self._spec = container, address, run, spec
        self._spawner = spawner

    async def probe(self, probe: Probe, timeout: float) -> Outcome:
        """Try a probe once; taking longer than ``timeout`` seconds is a failure."""
        return await self._within(timeout, probe.exec, probe.http_get, probe.tcp_socket)

    async def hook(self, handler: LifecycleHandler, timeout: float) -> Outcome:
        """Run a lifecycle hook."""
        if handler.sleep is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await asyncio.sleep(handler.sleep.seconds or 0)
            return Outcome(True)
        return await self._within(timeout, handler.exec, handler.http_get, handler.tcp_socket)

    async def _within(
        self, timeout: float, command: ExecAction | None, http: HTTPGetAction | None, tcp: TCPSocketAction | None
    ) -> Outcome:
        try:
            async with asyncio.timeout(timeout):
                if command is not None:
                    return await self._exec(command)
                if http is not None:
                    return await self._http(http)
                if tcp is not None:
                    return await self._tcp(tcp)
        except TimeoutError:
            return Outcome(False, f"no answer within {timeout:g} s")
        except (OSError, ValueError, OverflowError) as error:  # also of hosts and ports that none can have
            asked = http or tcp
            said = getattr(error, "strerror", None) or str(error)
            return Outcome(False, f"port {asked.port}: {said}" if asked is not None else said)
        return Outcome(True)

    async def _tcp(self, action: TCPSocketAction) -> Outcome:
        _, writer = await asyncio.open_connection(action.host or self._address, self._port(action.port))
        writer.close()
        return Outcome(True)

    async def _http(self, action: HTTPGetAction) -> Outcome:
        host, port = action.host or self._address, self._port(action.port)
        secure = _unverified() if (action.scheme or "HTTP").upper() == "HTTPS" else None
        reader, writer = await asyncio.open_connection(host, port, ssl=secure)
        try:
            headers = {
                "Host": f"{host}:{port}",
                "User-Agent": "kube-probe/1.32",
                "Accept": "*/*",
                "Connection": "close",
            }
            headers |= {header.name: header.value for header in action.http_headers or ()}
            lines = [f"GET {action.path or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
            await writer.drain()
            status = (await reader.readline())[:_HEAD_BYTES].split()
        finally:
            writer.close()
        code = int(status[1]) if len(status) > 1 and status[1].isdigit() else 0
        return Outcome(200 <= code < 400, f"HTTP probe failed with statuscode: {code}")

    async def _exec(self, action: ExecAction) -> Outcome:
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(writer, True)
        try:
            entered = await enter(
                self._spawner, self._run, self._spec, action.command or ["true"], (null, writer, writer)
            )
        except AgentError as error:
            os.close(reader)
            return Outcome(False, str(error))
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(null)
            os.close(writer)
        output = _Tail(reader)
        try:
            finished = await entered.finished
        finally:
            await entered.kill()
            said = output.close()
        message = finished.problem or said or f"exit code {finished.exit_code}"
        return Outcome(finished.exit_code == 0 and not finished.problem, message)

    def _port(self, port: int | str | None) -> int:
        if isinstance(port, str) and not port.isdigit():
            for named in self._container.ports or ():
                if named.name == port:
                    return named.container_port
            raise OSError(f"the container has no port named {port}")
        return int(port or 0)


class _Tail:
    """Keeps the last bytes of what comes out of a pipe, and takes everything, so that no writer waits for room."""

    def __init__(self, fd: int) -> None:
        self._fd, self._kept = fd, b""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self._take)

    def _take(self) -> bool:
        try:
            data = os.read(self._fd, _PIECE)
        except BlockingIOError:
            return False
        self._kept = (self._kept + data)[-_HEAD_BYTES:]
        if not data:
            self._loop.remove_reader(self._fd)
        return bool(data)

    def close(self) -> str:
        """What was said last."""
        for _ in range(_PIPE_BYTES // _PIECE):
            if not self._take():
                break
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        return self._kept.decode("utf-8", "replace").strip()


def _unverified() -> ssl.SSLContext:
    """As the kubelet: probes do not check certificates."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


UNHEALTHY = "Unhealthy"
_POLL_SECONDS = 0.02
_HOOK_SECONDS = 3600.0


class Probing:
    """What the probes of one run say; they are tried from its making until ``end``.

    Args:
        spec: the container of the manifest.
        run: the run, whose command may not be executed yet.
        checks: tries a probe once.
        clock: paces the tries.
        changed: called after every change of the answers.
        failed: called with the first failure of each series, and with the one that counts.
    """

    def __init__(
        self,
        spec: Container,
        run: RunDir,
        checks: Checks,
        *,
        clock: Clock,
        changed: Callable[[], None],
        failed: Callable[[Reason], None],
    ) -> None:
        self._spec, self._run, self._checks, self._clock = spec, run, checks, clock
        self._changed, self._failed = changed, failed
        self._startup = ProbeState(spec.startup_probe, passing=False) if spec.startup_probe else None
        self._readiness = ProbeState(spec.readiness_probe, passing=False) if spec.readiness_probe else None
        self._failing: Reason | None = None
        self._tasks: list[asyncio.Task[None]] = []
        if spec.startup_probe or spec.readiness_probe or spec.liveness_probe:
            self._tasks.append(asyncio.create_task(self._probe_all()))
        if spec.lifecycle is not None and spec.lifecycle.post_start is not None and not self._startup:
            self._tasks.append(asyncio.create_task(self._post_start()))

    @property
    def passed(self) -> bool:
        """The startup probe succeeded, or there is none."""
        return self._startup is None or self._startup.passing

    @property
    def ready(self) -> bool:
        """The readiness probe succeeds, or there is none."""
        return self._readiness is None or self._readiness.passing

    @property
    def failing(self) -> Reason | None:
        """Why the container must be ended, once a probe or the hook asks for it."""
        return self._failing

    def end(self) -> None:
        """Try nothing any more; the last answers stay, but none of them ends the container."""
        self._failing = None
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    async def _post_start(self) -> None:
        hook = self._spec.lifecycle.post_start if self._spec.lifecycle else None
        if hook is None:
            return
        await self._has_started()
        outcome = await self._checks.hook(hook, _HOOK_SECONDS)
        if not outcome.success:
            self._failing = Reason("FailedPostStartHook", f"PostStartHook failed: {outcome.message}")
            self._changed()

    async def _has_started(self) -> None:
        while self._run.started() is None:
            await self._clock.sleep(_POLL_SECONDS)

    async def _probe_all(self) -> None:
        """The startup probe first, then liveness and readiness side by side, as in Kubernetes."""
        await self._has_started()
        if self._startup is not None:
            await self._probe(self._startup, "Startup", until_passing=True)
        async with asyncio.TaskGroup() as group:
            if self._readiness is not None:
                group.create_task(self._probe(self._readiness, "Readiness"))
            if (liveness := self._spec.liveness_probe) is not None:
                group.create_task(self._probe(ProbeState(liveness, passing=True), "Liveness"))

    async def _probe(self, state: ProbeState, kind: str, *, until_passing: bool = False) -> None:
        await self._clock.sleep(state.initial_delay)
        while True:
            outcome = await self._checks.probe(state.probe, state.timeout)
            counts = state.record(outcome.success)
            why = Reason(UNHEALTHY, f"{kind} probe failed: {outcome.message}")
            if not outcome.success and (counts or state.failures == 1):
                self._failed(why)
            if counts:
                if state.failed and kind != "Readiness":
                    self._failing = why
                self._changed()
            if (state.failed and kind != "Readiness") or (until_passing and state.passing):
                return
            if state.passing:
                state.failed = False
            await self._clock.sleep(state.period)


@dataclass(slots=True)
class ProbeState:
    """What a probe says so far.

    Attributes:
        passing: its present verdict; liveness starts true, readiness and startup start false.
        failed: it failed for good (liveness and startup only: the container must be ended).
    """

    probe: Probe
    passing: bool
    failed: bool = False
    successes: int = 0
    failures: int = 0

    def record(self, success: bool) -> bool:
        """Count one result; True when the verdict changed."""
        before = (self.passing, self.failed)
        if success:
            self.successes, self.failures = self.successes + 1, 0
            if self.successes >= (self.probe.success_threshold or 1):
                self.passing = True
        else:
            self.successes, self.failures = 0, self.failures + 1
            if self.failures >= (self.probe.failure_threshold or 3):
                self.passing, self.failed = False, True
        return (self.passing, self.failed) != before

    @property
    def period(self) -> float:
        """Seconds between two tries."""
        return float(self.probe.period_seconds or 10)

    @property
    def timeout(self) -> float:
        """Seconds that one try may take."""
        return float(self.probe.timeout_seconds or 1)

    @property
    def initial_delay(self) -> float:
        """Seconds before the first try."""
        return float(self.probe.initial_delay_seconds or 0)
