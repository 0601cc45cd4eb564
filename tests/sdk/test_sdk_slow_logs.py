"""Logs that come slowly are followed to their end where they have one; who writes for ever holds nobody up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from support.memory import MemoryClient
from unisono.api.batch import Job
from unisono.api.core import Pod
from unisono.api.kinds import JOBS, PODS
from unisono.sdk import joblogs

META = {"namespace": "default"}
OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
LABELS = {"volcano.sh/job-name": "j", "volcano.sh/task-spec": "t"}


class Server(MemoryClient):
    """The second line of a log comes when it is ``written``."""

    def __init__(self, phase: str) -> None:
        super().__init__()
        self.written = asyncio.Event()
        job = {"metadata": {"name": "j", "uid": "j", **META}, "status": {"state": {"phase": "Completed"}}}
        self.put(JOBS, msgspec.convert(job, Job))
        (made,) = self.objects(JOBS)
        pod = {
            "metadata": {
                "name": "j-t-0",
                "labels": LABELS,
                "ownerReferences": [OWNER | {"uid": made.metadata.uid}],
                **META,
            },
            "spec": {"containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": phase},
        }
        self.put(PODS, msgspec.convert(pod, Pod))

    async def stream(self, path: str, params: Any) -> AsyncIterator[bytes]:
        yield b"first\n"
        await self.written.wait()
        yield b"last\n"


@pytest.mark.parametrize(("phase", "whole"), [("Succeeded", True), ("Running", False)])
async def test_a_slow_log_is_followed_to_its_end_if_it_has_one(
    monkeypatch: pytest.MonkeyPatch, phase: str, whole: bool
) -> None:
    monkeypatch.setattr(joblogs, "DRAIN_SECONDS", 0.01)
    monkeypatch.setattr(joblogs, "END_SECONDS", 600.0)
    server = Server(phase)
    if whole:
        asyncio.get_running_loop().call_later(0.1, server.written.set)
    found = []
    async with asyncio.timeout(300):
        async for line in joblogs.follow(server, JOBS, "default", "j", joblogs.wish(None, None)):  # type: ignore[arg-type]
            found.append(line.text)
    assert ("last" in found) is whole
