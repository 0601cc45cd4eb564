"""A run as a web page that opens without a network: its metrics, and plots as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Any

from unisono.simulator.metrics.durations import first_wait, percentile, size_class
from unisono.simulator.metrics.usage import Steps, held, lca_cost, least_cost, queue_length, steps
from unisono.simulator.studies.compare import numbers
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
COLOURS = ("#2f6fde", "#d9822b", "#2a9d6f", "#c23b5e", "#7a5cc7", "#5b8a9a", "#9a7b2f", "#68748a")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 960, 260, 64, 12, 10, 26
_MOST_POINTS = 1200
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


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
    values, value, at = [], before, 0
    for time in times:
        while at < len(line) and line[at][0] <= time:
            value = line[at][1]
            at += 1
        values.append(value)
    return values


def _topology(run: Run) -> str:
    paths = run.cluster.paths
    if not paths:
        return ""
    least_costs: dict[int, float] = {}
    counts: dict[str, int] = dict.fromkeys(("least", "up to 1.5 times", "up to 2 times", "more"), 0)
    for outcome in run.outcomes:
        for stretch in outcome.stretches:
            names = sorted({run.node_names[number] for number in stretch.nodes})
            if len(names) < 2:
                continue
            least = least_costs.setdefault(len(names), least_cost(len(names), paths))
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


@dataclass(frozen=True, slots=True)
class Line:
    """Steps: from each time on the value holds."""

    name: str
    points: Sequence[tuple[float, float]]


def plot(lines: Sequence[Line], end: float, *, percent: bool = False) -> str:
    """Steps over time from 0 to ``end`` seconds; empty where there is nothing to show."""
    lines = [line for line in lines if line.points]
    if not lines or end <= 0:
        return ""
    highest = max(value for line in lines for _, value in line.points)
    top = max(highest, 1.0 if percent else 0.0) or 1.0
    step = _step(top)
    top = ceil(top / step - 1e-9) * step
    parts = [_grid(top, step, percent=percent), _times(end)]
    for number, line in enumerate(lines):
        path = _path(_thin(line.points, end), end, top)
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f"<path d='{path}' fill='none' stroke='{colour}' stroke-width='1.4'/>")
    return f"{_svg(parts)}{_key([line.name for line in lines])}"


def bars(groups: Sequence[str], names: Sequence[str], values: Sequence[Sequence[float]]) -> str:
    """Groups of bars; ``values`` has a row per group with a number per name."""
    if not groups:
        return ""
    top = max((max(row) for row in values), default=0.0) or 1.0
    step = _step(top)
    top = ceil(top / step - 1e-9) * step
    parts = [_grid(top, step)]
    wide = (_WIDTH - _LEFT - _RIGHT) / len(groups)
    each = min(60.0, wide * 0.8 / len(names))
    for at, (group, row) in enumerate(zip(groups, values, strict=True)):
        middle = _LEFT + wide * (at + 0.5)
        parts.append(f"<text x='{middle:.1f}' y='{_HEIGHT - 8}' text-anchor='middle'>{escape(group)}</text>")
        for number, value in enumerate(row):
            x, y = middle + (number - len(names) / 2) * each, _y(value, top)
            parts.append(
                f"<rect x='{x:.1f}' y='{y:.1f}' width='{each * 0.9:.1f}' height='{_HEIGHT - _BOTTOM - y:.1f}' "
                f"fill='{COLOURS[number % len(COLOURS)]}'><title>{escape(names[number])}: {value:,.6g}</title></rect>"
            )
    return f"{_svg(parts)}{_key(names)}"


def _svg(parts: Sequence[str]) -> str:
    return f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img'>{''.join(parts)}</svg>"


def _key(names: Sequence[str]) -> str:
    if len(names) < 2:
        return ""
    keys = (
        f"<span class='key'><i style='background:{COLOURS[number % len(COLOURS)]}'></i>{escape(name)}</span>"
        for number, name in enumerate(names)
    )
    return f"<div>{''.join(keys)}</div>"


def _step(top: float) -> float:
    """A round distance between four to eight grid lines."""
    rough = top / 5
    power = 10.0 ** floor(log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if rough <= power * factor * (1 + 1e-9))


def _grid(top: float, step: float, *, percent: bool = False) -> str:
    parts = []
    for number in range(round(top / step) + 1):
        value = number * step
        y = _y(value, top)
        shown = f"{100 * value:.0f} %" if percent else f"{value:,.6g}"
        parts.append(
            f"<line class='grid' x1='{_LEFT}' x2='{_WIDTH - _RIGHT}' y1='{y:.1f}' y2='{y:.1f}'/>"
            f"<text x='{_LEFT - 6}' y='{y + 4:.1f}' text-anchor='end'>{shown}</text>"
        )
    return "".join(parts)


def _times(end: float) -> str:
    size, unit = next(((size, unit) for size, unit in _UNITS if end >= 3 * size), _UNITS[-1])
    step = _step(end / size) * size
    parts = []
    for number in range(floor(end / step + 1e-9) + 1):
        x = _x(number * step, end)
        parts.append(
            f"<text x='{x:.1f}' y='{_HEIGHT - 8}' text-anchor='middle'>{number * step / size:,.6g} {unit}</text>"
        )
    return "".join(parts)


def _thin(points: Sequence[tuple[float, float]], end: float) -> list[tuple[float, float]]:
    """At most so many points: the means of equal parts of the time where there are more."""
    if len(points) <= _MOST_POINTS:
        return list(points)
    width = end / _MOST_POINTS
    areas = [0.0] * _MOST_POINTS
    for number, (at, value) in enumerate(points):
        until = points[number + 1][0] if number + 1 < len(points) else end
        for part in range(max(0, int(at / width)), min(_MOST_POINTS, ceil(until / width))):
            areas[part] += max(0.0, min(until, (part + 1) * width) - max(at, part * width)) * value
    return [(number * width, area / width) for number, area in enumerate(areas)]


def _path(points: Sequence[tuple[float, float]], end: float, top: float) -> str:
    parts = [f"M{_x(points[0][0], end):.1f} {_y(points[0][1], top):.1f}"]
    for at, value in points[1:]:
        parts.append(f"H{_x(min(at, end), end):.1f}V{_y(value, top):.1f}")
    return "".join(parts) + f"H{_x(end, end):.1f}"


def _x(at: float, end: float) -> float:
    return _LEFT + at / end * (_WIDTH - _LEFT - _RIGHT)


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - value / top * (_HEIGHT - _TOP - _BOTTOM)
