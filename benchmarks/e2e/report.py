"""Tables of what was measured, for the terminal and for docs/performance.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.e2e.load import Followed
from benchmarks.e2e.processes import Usage
from benchmarks.measure import pace

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
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
    """One shape; ``usage`` by component."""

    shape: str
    pods: int
    times: Followed
    usage: dict[str, Usage]

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
        "pods": run.pods,
        "times": asdict(run.times),
        "pods_per_second": run.pods_per_second,
        "writes_per_pod": run.writes_per_pod,
        "usage": usages,
    }


def tables(runs: Sequence[Run], restart: dict[str, float] | None) -> list[str]:
    """Markdown tables."""
    found = []
    if runs:
        found += [_speed(runs), _requests(runs), _cost(runs)]
    if restart is not None:
        found.append(_restarted(restart))
    return found


def write(server: str, runs: Sequence[Run], restart: dict[str, float] | None, nodes: int) -> None:
    """Put the tables between the marks of ``server`` in docs/performance.md.

    Raises:
        SystemExit: the page has no such marks.

    """
    mark = f"end to end on {server}"
    caption = f"{nodes:,} simulated nodes, all processes on one machine with 2 CPUs, pace {pace():.0f} ms"
    body = "\n\n".join([*tables(runs, restart), caption])
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
                run.shape,
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
        rows.append((run.shape, f"{run.writes_per_pod:.2f}", *each))
    return _table(("writes per pod", "all", *kinds), rows)


def _cost(runs: Sequence[Run]) -> str:
    names = list(runs[0].usage)
    cells = lambda usage: f"{usage.cpu_seconds:.1f} s, {usage.rss_bytes / 1e6:,.0f} MB"  # noqa: E731
    rows = []
    for run in runs:
        cycles = run.usage["scheduler"].cycles
        seconds = run.usage["scheduler"].cycle_seconds
        rows.append((run.shape, *(cells(run.usage[name]) for name in names), f"{cycles} in {seconds:.1f} s"))
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
