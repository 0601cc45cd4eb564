"""Plots as inline SVG: steps over time, and grouped bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

COLOURS = ("#2f6fde", "#d9822b", "#2a9d6f", "#c23b5e", "#7a5cc7", "#5b8a9a", "#9a7b2f", "#68748a")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 960, 260, 64, 12, 10, 26
_MOST_POINTS = 1200
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


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
