"""A real ``unisono up`` with simulated nodes, given jobs as fast as it takes them; its processes are watched."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.api.serving import Server, whole_plane
from benchmarks.churn.fit import Sample
from benchmarks.churn.load import Load
from benchmarks.churn.simulated import NODES
from unisono.kube.clock import SYSTEM_CLOCK

Report = Callable[[Sample], None]
_SAMPLE_SECONDS = 15.0
# Pods run a fifth of their time here: the measurement is about how many come and go.
_SCALE = 0.2


async def _life(folder: Path, options: Any, report: Report) -> None:
    nodes, data = folder / "nodes.yaml", folder / "data"
    nodes.write_text(json.dumps(NODES))
    async with whole_plane(data, nodes) as server:
        load = Load(
            server.client,
            SYSTEM_CLOCK,
            pods=options.pods,
            size=options.size,
            per_second=options.per_second,
            window=options.window,
            seconds_scale=_SCALE,
        )
        loading = asyncio.create_task(load.run())
        began = time.monotonic()
        try:
            while not loading.done() and time.monotonic() - began < options.minutes * 60:
                await asyncio.wait([loading], timeout=_SAMPLE_SECONDS)
                report(_sample(load, time.monotonic() - began, server, data))
            if loading.done():
                loading.result()
        finally:
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
    if load.errors:
        print("refused:", dict(load.errors.most_common(5)), flush=True)


def _sample(load: Load, seconds: float, server: Server, data: Path) -> Sample:
    figures: dict[str, float] = {}
    for name, pid in zip(("API", "scheduler and controllers"), server.pids(), strict=False):
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
        )
        figures[f"{name}: rss"] = int(status["VmRSS"].split()[0]) * 1024
        figures[f"{name}: threads"] = int(status["Threads"])
        figures[f"{name}: files"] = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    for name, file in (("store", "state.db"), ("write-ahead log", "state.db-wal"), ("log", "log")):
        figures[name] = (data / file).stat().st_size if (data / file).exists() else 0
    return Sample(load.counts.pods, seconds, figures)


def run(folder: Path, options: Any, report: Report) -> None:
    """Live as long as the options say, telling ``report`` of each sample."""
    asyncio.run(_life(folder, options, report))
