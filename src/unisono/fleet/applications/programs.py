"""Runs the programs that read sources for Applications: ``helm``, ``git``, ``kubectl``; bounded, with few variables."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from unisono.api.groups.fleet import SyncPolicy
from unisono.errors import ConfigError
from unisono.fleet.applications.bundle import ClusterTarget

LONGEST_SECONDS: Final = 600.0
MOST_OUTPUT: Final = 32 * 1024**2
"""Bytes that a program may print."""
# What a program of this kind needs of the hub's own environment: where programs are, and the way to the network.
_PASSED = ("PATH", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy", "SSL_CERT_FILE")

NO_WAY: Final = "http://127.0.0.1:9"
"""A proxy that is none, for programs that have nothing to fetch."""
_LOCAL = ("kustomize", "kubectl")

Run = Callable[[Sequence[str], Path, float], Awaitable[bytes]]
"""Runs a program in a folder for so many seconds at most and answers what it prints; raises ``ConfigError``."""


def find(*names: str) -> str | None:
    """The first of these programs that is installed."""
    return next((found for name in names if (found := shutil.which(name))), None)


async def run(command: Sequence[str], folder: Path, seconds: float) -> bytes:
    """Run a program; see `Run`.

    Raises:
        ConfigError: it failed, took too long or printed too much; with the last lines that it printed.
    """
    name = Path(command[0]).name
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment(name, folder),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None

    def kill() -> None:
        # Children too: git and helm start others.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    # A process counts as ended when its pipes are read to their ends, also by a reader that has had enough.
    reading = [asyncio.ensure_future(_read(stream, kill)) for stream in (process.stdout, process.stderr)]
    try:
        _, late = await asyncio.wait(reading, timeout=min(seconds, LONGEST_SECONDS))
    finally:
        kill()
    printed, error_output = await asyncio.gather(*reading)
    code = await process.wait()
    if late:
        raise ConfigError(f"{name} did not end within {seconds:g} seconds")
    if printed is None or error_output is None:
        raise ConfigError(f"{name} printed more than {MOST_OUTPUT // 1024**2} MiB")
    if code:
        lines = [line for line in error_output.decode(errors="replace").splitlines() if line.strip()]
        raise ConfigError(f"{name} failed: {' '.join(lines[-3:])[:500] or f'it ended with {code}'}")
    return printed


async def _read(stream: asyncio.StreamReader, kill: Callable[[], None]) -> bytes | None:
    """All that comes; None, and an end of the program, where it is too much."""
    parts: list[bytes] = []
    size = 0
    while part := await stream.read(65536):
        size += len(part)
        if size > MOST_OUTPUT:
            kill()
            parts.clear()
        else:
            parts.append(part)
    return None if size > MOST_OUTPUT else b"".join(parts)


def environment(program: str, folder: Path) -> Mapping[str, str]:
    """The variables of a program: no credentials and settings of the hub's own user, and the network where it needs it.

    Args:
        program: its name; git takes HTTPS alone, and asks nothing; kustomize fetches nothing.
        folder: its home.
    """
    fetches = program not in _LOCAL
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    if not fetches:
        passed |= {name: NO_WAY for name in _PASSED if name.lower() in ("https_proxy", "http_proxy")}
        passed |= {"NO_PROXY": "", "no_proxy": ""}
    home = str(folder)
    return {
        **passed,
        "HOME": home,
        "XDG_CACHE_HOME": home,
        "XDG_CONFIG_HOME": home,
        "XDG_DATA_HOME": home,
        "KUBECONFIG": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "https" if fetches else "none",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }


# Charts that need no Helm: Unisono itself, which the articles call ``volcano``.

OURS: Final = ("unisono", "volcano")
"""Names of charts that mean this project, or what it stands for."""
# How the embedded API server marks its version.
_OWN_VERSION: Final = "+unisono."

Manifests = Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]]
"""The manifests of an installation of this project for a chart's values."""


class BuiltIn:
    """What stands for a chart of ours in a cluster."""

    def __init__(self, manifests: Manifests | None = None) -> None:
        """Without ``manifests`` only clusters that are ours already need no Helm."""
        self._manifests = manifests

    def objects(self, policy: SyncPolicy, target: ClusterTarget) -> tuple[str, Sequence[Mapping[str, Any]] | None]:
        """A remark and the objects; None where the chart has to be rendered."""
        chart = policy.helm.chart.spec.chart if policy.helm is not None else ""
        if chart not in OURS:
            return "", None
        if _OWN_VERSION in target.version:
            return "this cluster is a control plane of Unisono, which has it built in", ()
        if chart == "volcano" and find("helm") is not None:
            return "", None
        if self._manifests is None:
            return "", None
        assert policy.helm is not None
        return f"Unisono's own manifests stand for the chart {chart}", self._manifests(policy.helm.values or {})
