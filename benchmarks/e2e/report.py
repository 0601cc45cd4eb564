"""Tables of what was measured, for the terminal and for docs/performance.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.e2e.load import Followed
from benchmarks.e2e.processes import Usage
from benchmarks.measure import pace

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
DEFINITIONS, INSTALLED, VOLCANO, VOLCANO_ASKED = SETUPS = ("definitions", "installed", "volcano", "volcano-webhooks")
"""What a cluster has: our kinds and components alone, also policies and the webhook, or Volcano's components, without
or with its webhooks."""
_WRITES = ("POST", "PATCH", "PUT", "DELETE")
_VERBS = {
    ("POST", "pods"): "create pod",
    ("POST", "pods/binding"): "bind",
    ("PATCH", "pods/status"): "pod status",
    ("POST", "events"): "event",
    ("PATCH", "jobs/status"): "job status",
    ("PATCH", "podgroups"): "PodGroup status",
    ("PATCH", "queues/status"): "queue status",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One shape.

    Attributes:
        usage: by component, and by the names of other processes of which only CPU time is known.
        served: requests by all clients, by verb and resource, where the server tells.
    """

    shape: str
    pods: int
    times: Followed
    usage: dict[str, Usage]
    setup: str = DEFINITIONS
    served: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def title(self) -> str:
        """The shape, and what is not the bare setup."""
        return self.shape if self.setup == DEFINITIONS else f"{self.shape} {self.setup}"

    @property
    def pods_per_second(self) -> float:
        """From the first submission to the last bind."""
        return self.pods / self.times.bound

    def writes(self) -> Counter[str]:
        """Writing requests of all components, tries that were refused included, by what they do."""
        found: Counter[str] = Counter()
        for usage in self.usage.values():
            for (method, resource, _), count in usage.requests.items():
                if method in _WRITES:
                    found[_VERBS.get((method, resource), "other")] += count
        return found

    @property
    def writes_per_pod(self) -> float:
        """Writing requests of all components for each pod."""
        return sum(self.writes().values()) / self.pods


def turned(setups: Sequence[str], number: int) -> list[str]:
    """The setups as the round of that number runs them: who is the first on a fresh server has an advantage."""
    first = number % len(setups)
    return [*setups[first:], *setups[:first]]


def plain(run: Run) -> dict[str, Any]:
    """A run as JSON can hold it: requests under ``METHOD resource code``, with what the tables make of them."""
    usages = {
        name: {
            "cpu_seconds": usage.cpu_seconds,
            "rss_bytes": usage.rss_bytes,
            "cycles": usage.cycles,
            "cycle_seconds": usage.cycle_seconds,
            "requests": {" ".join(key): count for key, count in sorted(usage.requests.items())},
        }
        for name, usage in run.usage.items()
    }
    return {
        "shape": run.shape,
        "setup": run.setup,
        "pods": run.pods,
        "times": asdict(run.times),
        "pods_per_second": run.pods_per_second,
        "writes_per_pod": run.writes_per_pod,
        "usage": usages,
        "served": {" ".join(key): count for key, count in sorted(run.served.items())},
    }


def tables(runs: Sequence[Run], restart: dict[str, float] | None, limits: dict[str, float] | None = None) -> list[str]:
    """Markdown tables."""
    found = []
    if limits is not None:
        found.append(_table(tuple(limits), [[f"{value:,.0f}" for value in limits.values()]]))
    if runs:
        found += [_speed(runs), _requests(runs), _cost(runs), _by_component(runs)]
        if any(run.served for run in runs):
            found.append(_served(runs))
        found += [
            _ratios(runs, base)
            for base in (DEFINITIONS, VOLCANO, VOLCANO_ASKED)
            if len({run.setup for run in runs}) > 1 and any(run.setup == base for run in runs)
        ]
    if restart is not None:
        found.append(_restarted(restart))
    return found


def write(
    server: str,
    runs: Sequence[Run],
    restart: dict[str, float] | None,
    nodes: int,
    limits: dict[str, float] | None = None,
) -> None:
    """Put the tables between the marks of ``server`` in docs/performance.md.

    Raises:
        SystemExit: the page has no such marks.
    """
    mark = f"end to end on {server}"
    caption = f"{nodes:,} simulated nodes, all processes on one machine with 2 CPUs, pace {pace():.0f} ms"
    body = "\n\n".join([*tables(runs, restart, limits), caption])
    text, count = re.subn(
        rf"(<!-- {mark}: begin -->\n).*?(\n<!-- {mark}: end -->)",
        lambda match: f"{match[1]}\n{body}\n{match[2]}",
        PAGE.read_text(),
        flags=re.DOTALL,
    )
    if not count:
        raise SystemExit(f"{PAGE} has no place for {mark!r}")
    PAGE.write_text(text)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _speed(runs: Sequence[Run]) -> str:
    return _table(
        ("jobs x pods", "pods/s to bound", "submitted", "created", "bound", "running"),
        (
            (
                run.title,
                f"{run.pods_per_second:,.0f}",
                *(
                    f"{seconds:,.1f} s"
                    for seconds in (run.times.submitted, run.times.created, run.times.bound, run.times.running)
                ),
            )
            for run in runs
        ),
    )


def _requests(runs: Sequence[Run]) -> str:
    kinds = [*_VERBS.values(), "other"]
    rows = []
    for run in runs:
        writes = run.writes()
        each = (f"{writes[kind] / run.pods:.2f}" for kind in kinds)
        rows.append((run.title, f"{run.writes_per_pod:.2f}", *each))
    return _table(("writes per pod", "all", *kinds), rows)


def cells(usage: Usage | None) -> str:
    """CPU and memory of a process, as far as they are known."""
    if usage is None:
        return "-"
    memory = f", {usage.rss_bytes / 1e6:,.0f} MB" if usage.rss_bytes else ""
    return f"{usage.cpu_seconds:.1f} s{memory}"


def _by_component(runs: Sequence[Run]) -> str:
    """Every request of our components, reads included, that comes to a hundredth of one for each pod."""
    rows = []
    for run in runs:
        for name, usage in run.usage.items():
            counts: Counter[str] = Counter()
            for (method, resource, code), count in usage.requests.items():
                counts[f"{method} {resource}" + ("" if code < "300" else f" ({code})")] += count
            told = [f"{what} {count / run.pods:.2f}" for what, count in counts.most_common() if count >= run.pods / 100]
            if told:
                rows.append((run.title, name, f"{counts.total() / run.pods:.2f}", ", ".join(told)))
    return _table(("requests per pod", "by", "all", "each"), rows)


def _served(runs: Sequence[Run]) -> str:
    """What the server answered to all its clients, those of Kubernetes included."""
    rows = []
    for run in runs:
        told = [f"{' '.join(key)} {count / run.pods:.2f}" for key, count in run.served.most_common(14)]
        rows.append((run.title, f"{run.served.total() / run.pods:.2f}", ", ".join(told)))
    return _table(("served per pod", "all", "most often"), rows)


def _ratios(runs: Sequence[Run], base: str) -> str:
    """Each setup against another one of the same round: runs that follow each other share what else goes on."""
    rows = []
    for shape in dict.fromkeys(run.shape for run in runs):
        by_setup = {setup: [run for run in runs if (run.shape, run.setup) == (shape, setup)] for setup in SETUPS}
        for setup, found in by_setup.items():
            if setup == base or not found:
                continue
            pairs = list(zip(found, by_setup[base], strict=True))
            speed = sorted(run.pods_per_second / bare.pods_per_second for run, bare in pairs)
            cpu = sorted(_server_cpu(run) / _server_cpu(bare) for run, bare in pairs)
            middle = f"{median(speed):.2f} ({speed[0]:.2f} to {speed[-1]:.2f})"
            cost = f"{median(cpu):.2f} ({cpu[0]:.2f} to {cpu[-1]:.2f})"
            rows.append((f"{shape} {setup}", middle, cost, str(len(pairs))))
    return _table((f"ratio to {base}", "pods/s", "CPU of the API server", "runs"), rows)


def _server_cpu(run: Run) -> float:
    return max(run.usage["API server"].cpu_seconds, 0.01)


def _cost(runs: Sequence[Run]) -> str:
    names = list(dict.fromkeys(name for run in runs for name in run.usage))
    rows = []
    for run in runs:
        cycles = run.usage["scheduler"].cycles
        seconds = run.usage["scheduler"].cycle_seconds
        rows.append((run.title, *(cells(run.usage.get(name)) for name in names), f"{cycles} in {seconds:.1f} s"))
    return _table(("CPU and memory", *names, "cycles"), rows)


def _restarted(restart: dict[str, float]) -> str:
    return _table(
        ("restart with", "to the first bind", "CPU", "memory"),
        [
            (
                f"{restart['nodes']:,.0f} nodes, {restart['pods']:,.0f} pods",
                f"{restart['seconds']:.1f} s",
                f"{restart['cpu_seconds']:.1f} s",
                f"{restart['rss_bytes'] / 1e6:,.0f} MB",
            )
        ],
    )
