"""Tables and plots in ``docs/performance.md``; what stands outside of the marked parts is written by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import ceil, floor, log10
from pathlib import Path

from benchmarks.growth import Point
from benchmarks.measure import Row

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
IMAGES = PAGE.parent / "images"
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _EDGE = 480, 260, 64, 40, 16


def put(page: str, part: str, text: str) -> str:
    """``page`` with the part between ``<!-- part: begin -->`` and ``<!-- part: end -->`` replaced."""
    begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"{PAGE.name} has no part {part}")
    return pattern.sub(lambda _: f"{begin}\n\n{text.strip()}\n\n{end}", page)


def number(value: float) -> str:
    """``12,345``, ``12.3`` or ``0.123``."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def results(rows: Sequence[Row], machine: str) -> str:
    """The table of `make bench` in Markdown."""
    lines = ["| what | measured | Volcano | times | wanted | note |", "|---|---|---|---|---|---|"]
    for row in rows:
        volcano = "" if row.volcano is None else f"{row.volcano:,.0f}"
        times = "" if row.ratio is None else f"{row.ratio:,.0f}"
        wanted = "" if row.wanted is None else f"{row.wanted:,.0f}"
        lines.append(f"| {row.name} | {number(row.value)} {row.unit} | {volcano} | {times} | {wanted} | {row.note} |")
    return "\n".join([*lines, "", machine])


def growth(series: str, points: Sequence[Point], machine: str) -> str:
    """Table and plot of one series in Markdown."""
    lines = [f"| {series} | one cycle, ms | pods/s | µs per pod |", "|---|---|---|---|"]
    for point in points:
        cells = (f"{point.pods / point.seconds:,.0f}", f"{point.seconds / max(point.pods, 1) * 1e6:.1f}")
        lines.append(f"| {point.size:,} | {number(point.seconds * 1e3)} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", machine, "", f"![Decision time against {series}](images/growth-{series}.svg)"])


def plot(series: str, points: Sequence[Point]) -> str:
    """Seconds against size as SVG, both axes logarithmic."""
    xs, ys = [log10(p.size) for p in points], [log10(p.seconds) for p in points]
    x0, x1, y0, y1 = floor(min(xs)), ceil(max(xs)), floor(min(ys)), ceil(max(ys))
    x1, y1 = max(x1, x0 + 1), max(y1, y0 + 1)

    def at(x: float, y: float) -> tuple[float, float]:
        across, down = (x - x0) / (x1 - x0), (y1 - y) / (y1 - y0)
        return _LEFT + across * (_WIDTH - _LEFT - _EDGE), _EDGE + down * (_HEIGHT - _BOTTOM - _EDGE)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="11">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    for power in range(x0, x1 + 1):
        (left, top), (_, low) = at(power, y1), at(power, y0)
        parts.append(f'<path d="M{left:.1f} {top:.1f}V{low:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left:.1f}" y="{low + 15:.1f}" text-anchor="middle">{10**power:,}</text>')
    for power in range(y0, y1 + 1):
        (left, height), (right, _) = at(x0, power), at(x1, power)
        parts.append(f'<path d="M{left:.1f} {height:.1f}H{right:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6:.1f}" y="{height + 4:.1f}" text-anchor="end">{10.0**power:g} s</text>')
    spots = [at(x, y) for x, y in zip(xs, ys, strict=True)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#1f77b4" stroke-width="2"/>')
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#1f77b4"/>' for x, y in spots]
    parts.append(f'<text x="{(_LEFT + _WIDTH) / 2:.0f}" y="{_HEIGHT - 6}" text-anchor="middle">{series}</text>')
    return "\n".join([*parts, "</svg>", ""])
