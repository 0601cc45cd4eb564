"""NVIDIA's Multi-Process Service for cards that containers share at the same time: its daemon, and its variables."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from unisono.agent.devices.gpus import Gpu
from unisono.agent.devices.sharing import Share, card_of, is_replica
from unisono.errors import AgentError

PROGRAM = "nvidia-cuda-mps-control"
_MIB = 1 << 20
_START_SECONDS = 20.0


def mps_variables(given: Iterable[str], gpus: Iterable[Gpu], shares: Iterable[Share], pipes: Path) -> dict[str, str]:
    """What tells a container's CUDA programs of the server, and bounds their part of the card.

    Args:
        given: the container's devices.
        gpus: the machine's.
        shares: how cards are shared.
        pipes: folder of the daemon's pipes.
    """
    share = next((each for each in shares if each.strategy == "mps"), None)
    card = next((card_of(each) for each in given if is_replica(each)), None)
    if share is None or card is None:
        return {}
    memory = next((gpu.memory for gpu in gpus if gpu.uuid == card), 0)
    found = {
        "CUDA_MPS_PIPE_DIRECTORY": str(pipes),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(100 // share.replicas),
    }
    if memory:
        found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={memory // share.replicas // _MIB}M"
    return found


def mps_pipes(root: Path) -> Path:
    """The folder of the daemon's pipes, below the agent's folder."""
    return root / "mps" / "pipes"


class MpsDaemon:
    """The daemon, for as long as the agent runs.

    Args:
        root: the agent's folder; pipes and logs are below it.
        program: its control program.
    """

    def __init__(self, root: Path, program: str = PROGRAM) -> None:
        self.pipes, self._logs, self._program = mps_pipes(root), root / "mps" / "logs", program

    @property
    def _environment(self) -> Mapping[str, str]:
        return {
            **os.environ,
            "CUDA_MPS_PIPE_DIRECTORY": str(self.pipes),
            "CUDA_MPS_LOG_DIRECTORY": str(self._logs),
        }

    async def start(self) -> None:
        """Start it; one that an earlier agent has left goes on.

        Raises:
            AgentError: there is no such program, or it failed.
        """
        if shutil.which(self._program) is None:
            raise AgentError(
                f"The device configuration shares cards by mps, and {self._program} is not on the PATH: install "
                "NVIDIA's driver tools, or share by timeSlicing."
            )
        for path in (self.pipes, self._logs):
            path.mkdir(parents=True, exist_ok=True)
        code, text = await self._run("-d")
        if code and "already running" not in text.lower():
            raise AgentError(f"{self._program} -d failed: {text or f'exit code {code}'}")

    async def stop(self) -> None:
        """Let it end with its last client."""
        with contextlib.suppress(AgentError, OSError):
            await self._run(words="quit\n")

    async def _run(self, *arguments: str, words: str = "") -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            self._program,
            *arguments,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(_START_SECONDS):
                output, _ = await process.communicate(words.encode())
        except TimeoutError:
            process.kill()
            await process.wait()
            raise AgentError(f"{self._program} did not answer within {_START_SECONDS:.0f} s") from None
        return process.returncode or 0, output.decode(errors="replace").strip()
