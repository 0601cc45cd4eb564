"""``python -m benchmarks.busy [--jobs N] [--minutes N] [--tree DIR]``: a busy cluster for an hour of virtual time.

The whole control plane lives in this process. Each minute the objects are read through the API, and rules that import
nothing of Unisono (`benchmarks.check`) say which waiting jobs fit. ``--tree`` runs the sources of another checkout.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.busy import workload
from benchmarks.check.facts import Amounts, Facts, Turn, add
from benchmarks.check.rules.conserving import fitting
from benchmarks.check.rules.shares import most

_HERE = Path(__file__).parents[2]
_PORTION, _PAUSE = 100, 6.0
_KINDS = {
    "/api/v1/nodes": ("v1", "Node"),
    "/api/v1/pods": ("v1", "Pod"),
    "/apis/scheduling.k8s.io/v1/priorityclasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "/apis/scheduling.volcano.sh/v1beta1/queues": ("scheduling.volcano.sh/v1beta1", "Queue"),
    "/apis/scheduling.volcano.sh/v1beta1/podgroups": ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    "/apis/topology.volcano.sh/v1alpha1/hypernodes": ("topology.volcano.sh/v1alpha1", "HyperNode"),
}


@dataclass(slots=True)
class Cycles:
    """What the engine did since it was last asked: seconds of each cycle, and evictions."""

    seconds: list[float] = field(default_factory=list)
    evictions: int = 0

    def decide(self, *given: Any, **more: Any) -> Any:
        """One cycle."""
        from unisono.engine import run

        began = time.thread_time()
        decisions = run(*given, **more)
        self.seconds.append(time.thread_time() - began)
        self.evictions += len(decisions.evictions)
        return decisions


@dataclass(frozen=True, slots=True)
class Minute:
    """One line of the report; ``allowed`` are the GPUs that nodes, limits and demand would let be allocated at most."""

    minute: int
    gpus: int
    allowed: int
    waiting: int
    fitting: int
    cycles: int
    worst_ms: float
    evictions: int


def _minute(number: int, facts: Facts, cycles: Cycles, config: Any) -> tuple[Minute, list[str]]:
    turn = Turn(facts, config, 0.0, [], [], {}, {})
    held: Amounts = {}
    for pod in facts.pods.values():
        if pod.occupies:
            add(held, pod.requests)
    waiting = [
        key for key in facts.all("PodGroup") if any(pod.waits for pod in facts.members(key)) or _admits(facts, key)
    ]
    fits = fitting(turn)
    line = Minute(
        number,
        int(held.get(workload.GPU, 0)),
        int(most(facts, workload.GPU)),
        len(waiting),
        len(fits),
        len(cycles.seconds),
        round(max(cycles.seconds, default=0.0) * 1000, 1),
        cycles.evictions,
    )
    cycles.seconds, cycles.evictions = [], 0
    return line, fits


def _admits(facts: Facts, key: str) -> bool:
    return bool((facts.all("PodGroup")[key].get("status") or {}).get("phase", "Pending") == "Pending")


async def _life(folder: Path, options: argparse.Namespace) -> None:
    from benchmarks.answers.case import Case
    from benchmarks.answers.plane import plane
    from unisono.engine.config_file.reader import DEFAULT_TEXT
    from unisono.kube.discovery import request_json

    config, cycles = yaml.safe_load(DEFAULT_TEXT), Cycles()
    around = [*workload.surroundings()]
    case = Case("busy", "", "queue/research", [], [], around, workload.nodes(), "", [], [], [], 0, 0.0)
    async with plane(case, folder, cycles.decide) as made:

        async def submit() -> None:
            for number, job in enumerate(workload.jobs(options.jobs), 1):
                await made.create(job)
                if number % _PORTION == 0:
                    await asyncio.sleep(_PAUSE)

        submitting = asyncio.create_task(submit())
        for number in range(1, options.minutes + 1):
            await asyncio.sleep(60.0)
            objects = []
            for path, (version, kind) in _KINDS.items():
                items = (await request_json(made.client, "GET", path))["items"]
                objects += [{**item, "apiVersion": version, "kind": kind} for item in items]
            for item in objects:
                item.setdefault("status", {})
            line, fits = _minute(number, Facts.of(objects), cycles, config)
            _print(line, fits, options.output)
            if submitting.done():
                submitting.result()
        submitting.cancel()
        await asyncio.gather(submitting, return_exceptions=True)


def _print(line: Minute, fits: list[str], output: str) -> None:
    if output == "json":
        print(json.dumps({**asdict(line), "fit": fits}), flush=True)
        return
    if line.minute == 1:
        print("minute   GPUs  allowed  waiting  fitting  cycles  worst ms  evictions")
    print(
        f"{line.minute:6} {line.gpus:6} {line.allowed:8} {line.waiting:8} {line.fitting:8} {line.cycles:7} "
        f"{line.worst_ms:9.1f} {line.evictions:10}  {' '.join(fits[:3])}",
        flush=True,
    )


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.busy", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000, help="how many (%(default)s)")
    parser.add_argument("--minutes", type=int, default=60, help="virtual minutes (%(default)s)")
    parser.add_argument("--tree", type=Path, help="another checkout, whose src/unisono is run")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    options = parser.parse_args()
    if options.tree is not None:
        at = sys.argv.index(next(word for word in sys.argv if word.startswith("--tree")))
        rest = sys.argv[1:at] + sys.argv[at + (1 if "=" in sys.argv[at] else 2) :]
        path = os.pathsep.join([str(options.tree.resolve() / "src"), str(_HERE)])
        command = [sys.executable, "-m", "benchmarks.busy", *rest]
        return subprocess.run(command, check=False, cwd=_HERE, env=os.environ | {"PYTHONPATH": path}).returncode
    from unisono.standalone.logs import configure_logs
    from unisono.standalone.virtual_time import VirtualLoop

    configure_logs(level="error")
    with tempfile.TemporaryDirectory(prefix="unisono-busy-") as folder:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(_life(Path(folder), options))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
