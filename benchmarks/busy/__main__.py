"""``python -m benchmarks.busy [--jobs N] [--minutes N] [--shares PLUGIN] [--ask N] [--carry-out N] [--tree DIR]``.

A busy cluster for an hour of virtual time. The whole control plane lives in this process. Each minute the objects are
read through the API, and rules that import nothing of Unisono (`benchmarks.check`) say which waiting jobs fit.
With ``--ask`` some of the jobs that wait at the end are asked why, and of those that are offered a tried fix some carry
it out (``--carry-out``). ``--tree`` runs the sources of another checkout.
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
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from benchmarks.busy import workload
from benchmarks.busy.workload import Cluster, summary
from benchmarks.check.facts import Amounts, Facts, Turn, add
from benchmarks.check.rules.conserving import fitting
from benchmarks.check.rules.shares import most

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

T = TypeVar("T")

_ALL = 10**6
"""Objects that are read at most."""
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
    """What the engine did since it was last asked: CPU seconds of each cycle and of its parts, and evictions.

    As in the scheduler, explanations that take long are worked out beside the cycles: here before the cycle, whose
    seconds do not count them, and they are heard of as much later as they took.
    """

    seconds: list[float] = field(default_factory=list)
    parts: Counter[str] = field(default_factory=Counter)
    evictions: int = 0
    explained: list[float] = field(default_factory=list)
    explanations: Any = None
    _run: Callable[..., Any] = field(init=False)

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin; ``loop`` tells the cluster's time."""
        from unisono.engine import run
        from unisono.gc_pauses import collector_paused
        from unisono.scheduler.explanations import Explanations

        def beside(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
            began = time.thread_time()
            found = work()
            self.explained.append(time.thread_time() - began)
            loop.call_later(self.explained[-1], done, found)

        cycle = partial(run, monotonic=time.thread_time)
        self.explanations = Explanations(loop.time, copies=beside)
        self._run = collector_paused()(partial(self.explanations.decide, cycle))

    def decide(self, *given: Any, **more: Any) -> Any:
        """One cycle."""
        before, began = len(self.explained), time.thread_time()
        decisions = self._run(*given, **more)
        self.seconds.append(time.thread_time() - began - sum(self.explained[before:]))
        self.parts.update({name: spent for name, spent in decisions.seconds.items() if not name.startswith("plugins/")})
        self.evictions += len(decisions.evictions)
        return decisions


@dataclass(frozen=True, slots=True)
class Minute:
    """One line of the report.

    ``allowed`` are the GPUs that nodes, limits and demand would let be allocated at most; ``parts_ms`` are those of the
    mean cycle that take more than a twentieth of it, ``explained`` and ``explained_ms`` number and mean time of the
    explanations beside the cycles; ``stored_mb`` is what the objects take in the store.
    """

    minute: int
    gpus: int
    allowed: int
    waiting: int
    fitting: int
    cycles: int
    explained: int
    explained_ms: float
    mean_ms: float
    worst_ms: float
    parts_ms: dict[str, float]
    stored_mb: float
    evictions: int


def _minute(number: int, facts: Facts, cycles: Cycles, config: Any, stored: int) -> tuple[Minute, list[str]]:
    turn = Turn(facts, config, 0.0, [], [], {}, {})
    held: Amounts = {}
    for pod in facts.pods.values():
        if pod.occupies:
            add(held, pod.requests)
    waiting = [
        key for key in facts.all("PodGroup") if any(pod.waits for pod in facts.members(key)) or _admits(facts, key)
    ]
    fits = fitting(turn)
    each = 1000 / max(len(cycles.seconds), 1)
    mean = sum(cycles.seconds) * each
    line = Minute(
        number,
        int(held.get(workload.GPU, 0)),
        int(most(facts, workload.GPU)),
        len(waiting),
        len(fits),
        len(cycles.seconds),
        len(cycles.explained),
        round(1000 * sum(cycles.explained) / max(len(cycles.explained), 1), 1),
        round(mean, 1),
        round(max(cycles.seconds, default=0.0) * 1000, 1),
        {name: round(spent * each, 1) for name, spent in cycles.parts.most_common() if spent * each > mean / 20},
        round(stored / 1e6, 1),
        cycles.evictions,
    )
    cycles.seconds, cycles.explained, cycles.evictions = [], [], 0
    cycles.parts.clear()
    return line, fits


def _admits(facts: Facts, key: str) -> bool:
    return bool((facts.all("PodGroup")[key].get("status") or {}).get("phase", "Pending") == "Pending")


async def _life(folder: Path, options: argparse.Namespace) -> Cluster:
    from benchmarks.answers.case import Case
    from benchmarks.answers.plane import plane
    from unisono.engine.config_file.reader import DEFAULT_TEXT, load_config
    from unisono.kube.discovery import request_json
    from unisono.sdk.overview.components import server_time
    from unisono.standalone.shadow import read_cluster

    text, cycles = _configuration(DEFAULT_TEXT, options.shares), Cycles()
    config = yaml.safe_load(text)
    cycles.follow(asyncio.get_running_loop())
    around = [*workload.surroundings()]
    case = Case("busy", text, "queue/research", [], [], around, workload.nodes(), "", [], [], [], 0, 0.0)
    async with plane(case, folder, cycles.decide, cycles.explanations) as made:

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
            line, fits = _minute(number, Facts.of(objects), cycles, config, await _stored(made.client))
            _print(line, fits, options.output)
            if submitting.done():
                submitting.result()
        submitting.cancel()
        await asyncio.gather(submitting, return_exceptions=True)
        return Cluster(
            folder, await read_cluster(made.client, _ALL), load_config(text, "busy"), await server_time(made.client)
        )


def _run(what: Coroutine[Any, Any, T]) -> T:
    from unisono.standalone.shadow import VirtualLoop

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(what)


def _ask(cluster: Cluster, options: argparse.Namespace) -> None:
    jobs = cluster.drawn(options.ask, options.seed)
    answers, left = _run(cluster.ask(jobs)), options.carry_out
    for job, answer in zip(jobs, answers, strict=True):
        if answer.tried and left:
            left -= 1
            answer.results.append(_run(cluster.carry_out(job, answer.tried[0])))
        print(answer.text(), flush=True)
    print(summary(answers))


def _configuration(text: str, shares: str) -> str:
    """The default configuration, with ``capacity`` in place of ``proportion`` where that divides the cluster."""
    read = yaml.safe_load(text)
    for tier in read["tiers"] if shares == "capacity" else ():
        tier["plugins"] = [{"name": "capacity"} if one["name"] == "proportion" else one for one in tier["plugins"]]
    return yaml.safe_dump(read) if shares == "capacity" else text


async def _stored(client: HttpClient) -> int:
    """Bytes of all objects, as the server tells them."""
    from unisono.api.kinds import ALL_KINDS

    found = 0
    for kind in ALL_KINDS:
        status, _, body = await client.request("GET", kind.path(None))
        found += len(body) if status == 200 else 0
    return found


def _print(line: Minute, fits: list[str], output: str) -> None:
    if output == "json":
        print(json.dumps({**asdict(line), "fit": fits}), flush=True)
        return
    parts = ", ".join(f"{name} {spent}" for name, spent in line.parts_ms.items())
    if line.minute == 1:
        print("minute   GPUs  allowed  waiting  fitting  cycles  mean ms  worst ms  explained  MB stored  evictions")
    explained = f"{line.explained} x {line.explained_ms:.0f} ms"
    print(
        f"{line.minute:6} {line.gpus:6} {line.allowed:8} {line.waiting:8} {line.fitting:8} {line.cycles:7} "
        f"{line.mean_ms:8.1f} {line.worst_ms:9.1f} {explained:>10} {line.stored_mb:10.1f} {line.evictions:10}  "
        f"{' '.join(fits[:3])}",
        f"        {parts}",
        sep="\n",
        flush=True,
    )


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.busy", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000, help="how many (%(default)s)")
    parser.add_argument("--minutes", type=int, default=60, help="virtual minutes (%(default)s)")
    parser.add_argument(
        "--shares", choices=("proportion", "capacity"), default="proportion", help="what divides the cluster"
    )
    parser.add_argument("--ask", type=int, default=0, metavar="N", help="ask N jobs at the end why they wait")
    parser.add_argument("--carry-out", type=int, default=0, metavar="N", help="carry N of the tried fixes out")
    parser.add_argument("--seed", type=int, default=1, help="which jobs are asked (%(default)s)")
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

    configure_logs(level="error")
    with tempfile.TemporaryDirectory(prefix="unisono-busy-") as folder:
        cluster = _run(_life(Path(folder), options))
        if options.ask:
            _ask(cluster, options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
