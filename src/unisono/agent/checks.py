"""One try of a probe or one run of a hook: exec, tcpSocket, httpGet, sleep."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unisono.agent.isolation import shim_command
from unisono.agent.layout import RunDir
from unisono.api.core import Container, ExecAction, HTTPGetAction, LifecycleHandler, Probe, TCPSocketAction

_HEAD_BYTES = 4096


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
    """

    def __init__(self, container: Container, address: str, run: RunDir, spec: Mapping[str, Any]) -> None:
        self._container, self._address, self._run, self._spec = container, address, run, spec

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
        except OSError as error:
            return Outcome(False, str(error))
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
        started = self._run.started()
        if started is None:
            return Outcome(False, "the container has not started")
        spec = {
            **self._spec,
            "argv": action.command or ["true"],
            "init": int(started["init"]),
            "namespaces": self._namespaces(),
        }
        descriptor, path = tempfile.mkstemp(prefix="exec-", dir=self._run.path)
        os.close(descriptor)
        Path(path).write_bytes(marshal.dumps(spec))  # noqa: ASYNC240  a few hundred bytes
        process = await asyncio.create_subprocess_exec(
            *shim_command("--enter", path),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            Path(path).unlink(missing_ok=True)  # noqa: ASYNC240
        return Outcome(process.returncode == 0, output[-_HEAD_BYTES:].decode("utf-8", "replace").strip())

    def _namespaces(self) -> list[str]:
        return {"root": ["pid", "mnt", "uts"], "user": ["user", "pid", "mnt", "uts"]}.get(self._spec["isolation"], [])

    def _port(self, port: int | str | None) -> int:
        if isinstance(port, str) and not port.isdigit():
            for named in self._container.ports or ():
                if named.name == port:
                    return named.container_port
            raise OSError(f"the container has no port named {port}")
        return int(port or 0)


def _unverified() -> ssl.SSLContext:
    """As the kubelet: probes do not check certificates."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
