"""A run as a web page that opens without a network: its metrics, and plots as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from unisono.simulator.metrics.durations import first_wait, size_class
from unisono.simulator.metrics.topology import lca_cost
from unisono.simulator.metrics.usage import Steps, held, queue_length, steps
from unisono.simulator.studies.results import numbers
from unisono.simulator.studies.svg import Line, bars, plot
from unisono.simulator.world.outcome import Run

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --faint: #68748a; --line: #d8dee8; --paper: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf3; --faint: #97a3b8; --line: #364054; --paper: #161b24; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 68rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p { color: var(--faint); } svg { width: 100%; height: auto; }
svg text { fill: var(--faint); font: 11px system-ui, sans-serif; } svg .grid { stroke: var(--line); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid var(--line); } td.n { text-align: right; }
figure { margin: 0; } figcaption { color: var(--faint); }
.key { display: inline-block; margin-right: 1rem; } .key i { display: inline-block; width: .8rem; height: .8rem;
  margin-right: .3rem; vertical-align: -1px; }
"""
_MOST_QUEUES = 7


def page(run: Run, result: Mapping[str, Any]) -> str:
    """HTML of one run.

    Args:
        run: the run, for what happens over time.
        result: its metrics, as `summary` makes them.

    """
    about = ", ".join(f"{key} {result[key]}" for key in ("workload", "cluster", "config", "seed") if key in result)
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>Simulation: {escape(about)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>Simulation</h1><p>{escape(about)}</p>",
        _section("Utilisation", _utilisation(run), "Share of the cluster that jobs hold."),
        _section("Queue length", _queue_length(run), "Jobs that have arrived and not started for the first time."),
        _section(
            "Wait by size", _waits(run), "Seconds from submission to the first start: half, 90 % and 99 % of jobs."
        ),
        _section("Share by queue", _queues(run), "Share of the cluster that the jobs of each queue hold."),
        _section("Fragmentation", _stranded(run), "Idle GPUs while jobs that ask for no more than these GPUs wait."),
        _section("Topology", _topology(run), "Gangs by their network cost over the least one in the empty cluster."),
        f"<h2>Metrics</h2>{_table(result)}</body></html>",
    ]
    return "".join(parts)


def _section(title: str, figure: str, caption: str) -> str:
    if not figure:
        return ""
    return f"<h2>{escape(title)}</h2><figure>{figure}<figcaption>{escape(caption)}</figcaption></figure>"


def _whole(run: Run) -> tuple[str, float]:
    gpus = run.cluster.gpu_total
    return ("gpu", 1000.0 * gpus) if gpus else ("cpu", float(run.cluster.cpu_total))


def _share(line: Steps, whole: float) -> list[tuple[float, float]]:
    return [(at, value / whole if whole else 0.0) for at, value in line]


def _utilisation(run: Run) -> str:
    resource, whole = _whole(run)
    lines = [Line("GPUs" if resource == "gpu" else "cores", _share(held(run, resource=resource), whole))]
    if resource == "gpu" and run.cluster.cpu_total:
        lines.append(Line("cores", _share(held(run, resource="cpu"), float(run.cluster.cpu_total))))
    return plot(lines, run.end, percent=True)


def _queue_length(run: Run) -> str:
    return plot([Line("jobs", queue_length(run))], run.end)


def _queues(run: Run) -> str:
    resource, whole = _whole(run)
    totals: dict[str, float] = {}
    for outcome in run.outcomes:
        amount = sum(stretch.gpu_milli if resource == "gpu" else stretch.cpu_milli for stretch in outcome.stretches)
        totals[outcome.job.queue] = totals.get(outcome.job.queue, 0.0) + amount
    if len(totals) < 2:
        return ""
    names = sorted(totals, key=lambda name: (-totals[name], name))[:_MOST_QUEUES]
    lines = [Line(name, _share(held(run, resource=resource, queue=name), whole)) for name in names]
    return plot(lines, run.end, percent=True)


def _waits(run: Run) -> str:
    from unisono.simulator.metrics.numbers import percentile

    groups: dict[str, list[float]] = {}
    for outcome in run.outcomes:
        wait = first_wait(outcome)
        if wait is not None:
            groups.setdefault(size_class(outcome), []).append(wait)
    names = [name for name in ("cpu", "1 gpu", "2-8 gpus", ">8 gpus") if name in groups]
    values = [[percentile(groups[name], each) or 0.0 for each in (50, 90, 99)] for name in names]
    return bars([f"{name} ({len(groups[name])})" for name in names], ("median", "90 %", "99 %"), values)


def _stranded(run: Run) -> str:
    """Idle GPUs over time, and what waiting jobs ask for."""
    if not run.cluster.gpu_total:
        return ""
    free = [(at, run.cluster.gpu_total - value / 1000) for at, value in held(run)]
    changes: list[tuple[float, float]] = []
    for outcome in run.outcomes:
        gpus = outcome.job.gpu_demand / 1000
        if gpus and outcome.job.submit <= run.end and outcome.state != "dropped":
            changes += [(outcome.job.submit, gpus), (run.end if outcome.started is None else outcome.started, -gpus)]
    waiting = steps(changes)
    times = sorted({at for at, _ in free} | {at for at, _ in waiting})
    idle, asked = _at(free, times, float(run.cluster.gpu_total)), _at(waiting, times, 0.0)
    stranded = [(at, min(one, other)) for at, one, other in zip(times, idle, asked, strict=True)]
    return plot(
        [Line("idle GPUs", list(zip(times, idle, strict=True))), Line("of these, asked for", stranded)], run.end
    )


def _at(line: Sequence[tuple[float, float]], times: Sequence[float], before: float) -> list[float]:
    found, value, at = [], before, 0
    for time in times:
        while at < len(line) and line[at][0] <= time:
            value = line[at][1]
            at += 1
        found.append(value)
    return found


def _topology(run: Run) -> str:
    from unisono.simulator.metrics.topology import least_cost

    paths = run.cluster.paths
    if not paths:
        return ""
    known: dict[int, float] = {}
    counts: dict[str, int] = dict.fromkeys(("least", "up to 1.5 times", "up to 2 times", "more"), 0)
    for outcome in run.outcomes:
        for stretch in outcome.stretches:
            names = sorted({run.node_names[number] for number in stretch.nodes})
            if len(names) < 2:
                continue
            least = known.setdefault(len(names), least_cost(len(names), paths))
            ratio = lca_cost([paths.get(name, ()) for name in names]) / least if least else 1.0
            name = "least" if ratio <= 1 + 1e-9 else "up to 1.5 times" if ratio <= 1.5 else "up to 2 times"
            counts[name if ratio <= 2 else "more"] += 1
    if not any(counts.values()):
        return ""
    return bars(list(counts), ("gangs",), [[float(count)] for count in counts.values()])


def _table(result: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td class='n'>{value:,.6g}</td></tr>" for name, value in numbers(result)
    )
    return f"<table><thead><tr><th>metric</th><th>value</th></tr></thead><tbody>{rows}</tbody></table>"
