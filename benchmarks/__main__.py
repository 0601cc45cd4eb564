"""``python -m benchmarks [--quick] [--output json] [--write]`` and ``python -m benchmarks --growth [SERIES ...]``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict

import numpy as np
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks import report
from benchmarks.decision import GROUPS, rows
from benchmarks.growth import SERIES, Point, measure
from benchmarks.measure import Row, pace


def main() -> int:
    what = "Measures decision speed in memory, and the embedded API."
    parser = argparse.ArgumentParser(prog="benchmarks", description=what)
    parser.add_argument("--quick", action="store_true", help="small clusters, a few seconds")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    parser.add_argument("--only", choices=GROUPS, default="", help="measure one group of rows")
    parser.add_argument("--write", action="store_true", help="put the results into docs/performance.md")
    parser.add_argument("--growth", nargs="*", choices=SERIES, help="measure growth instead (all series by default)")
    options = parser.parse_args()
    if options.growth is not None:
        return _growth(options.growth or SERIES, quick=options.quick, output=options.output, write=options.write)
    chosen = [options.only] if options.only else GROUPS
    groups = {group: list(_shown(rows(group, quick=options.quick))) for group in chosen}
    measured = [row for found in groups.values() for row in found]
    if options.write:
        _write({f"results of {group}": report.results(found, _caption()) for group, found in groups.items()})
    if options.output == "json":
        found = [asdict(row) | {"met": row.met, "ratio": row.ratio} for row in measured]
        print(json.dumps({"machine": _machine(), "rows": found}, indent=2))
    else:
        _print(measured)
    return 0


def _shown(found: Iterable[Row]) -> Iterator[Row]:
    """The rows, with the name of the last one next to a spinner while the next one is measured."""
    progress = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=progress, transient=True, refresh_per_second=2) as bar:
        task = bar.add_task("measuring", total=None)
        for row in found:
            bar.update(task, description=f"measured {row.name}")
            yield row


def _growth(chosen: Iterable[str], *, quick: bool, output: str, write: bool) -> int:
    series: dict[str, list[Point]] = {name: list(measure(name, quick=quick)) for name in chosen}
    if write:
        _write({f"growth of {name}": report.growth(name, points, _caption()) for name, points in series.items()})
        report.IMAGES.mkdir(exist_ok=True)
        for name, points in series.items():
            (report.IMAGES / f"growth-{name}.svg").write_text(report.plot(name, points))
    if output == "json":
        found = {name: [asdict(point) for point in points] for name, points in series.items()}
        print(json.dumps({"machine": _machine(), "growth": found}, indent=2))
        return 0
    for name, points in series.items():
        table = Table(title=f"Decision time against {name}", caption=_caption())
        for column in (name, "one cycle", "pods/s"):
            table.add_column(column, justify="right")
        for point in points:
            table.add_row(f"{point.size:,}", f"{point.seconds * 1e3:,.1f} ms", f"{point.pods / point.seconds:,.0f}")
        _console().print(table)
    return 0


def _write(parts: dict[str, str]) -> None:
    page = report.PAGE.read_text()
    for part, text in parts.items():
        page = report.put(page, part, text)
    report.PAGE.write_text(page)


def _machine() -> dict[str, str | int | None]:
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "pace": f"{pace():.0f} ms",
    }


def _caption() -> str:
    return ", ".join(f"{name} {value}" for name, value in _machine().items())


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 190)


def _print(measured: list[Row]) -> None:
    table = Table(title="Unisono, measured", caption=_caption())
    table.add_column("what")
    for column in ("measured", "Volcano", "times", "wanted", ""):
        table.add_column(column, justify="right")
    table.add_column("note")
    for row in measured:
        mark = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[row.met]
        volcano = "" if row.volcano is None else f"{row.volcano:,.0f}"
        times = "" if row.ratio is None else f"{row.ratio:,.0f} x"
        wanted = "" if row.wanted is None else f"{row.wanted:,.0f} {row.unit}"
        table.add_row(row.name, f"{report.number(row.value)} {row.unit}", volcano, times, wanted, mark, row.note)
    _console().print(table)


if __name__ == "__main__":
    raise SystemExit(main())
