"""``python -m benchmarks [--quick] [--output json]``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict

import numpy as np
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.decision import Row, rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measures decision speed in memory.")
    parser.add_argument("--quick", action="store_true", help="small clusters, a few seconds")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    measured: list[Row] = []
    progress = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=progress, transient=True) as bar:
        task = bar.add_task("measuring", total=None)
        for row in rows(quick=options.quick):
            measured.append(row)
            bar.update(task, description=f"measured {row.name}")
    if options.output == "json":
        print(
            json.dumps({"machine": _machine(), "rows": [asdict(row) | {"met": row.met} for row in measured]}, indent=2)
        )
    else:
        _print(measured)
    return 0


def _machine() -> dict[str, str | int | None]:
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
    }


def _print(measured: list[Row]) -> None:
    table = Table(title="Decisions in memory", caption=", ".join(f"{k} {v}" for k, v in _machine().items()))
    table.add_column("what")
    table.add_column("measured", justify="right")
    table.add_column("wanted", justify="right")
    table.add_column("")
    table.add_column("note")
    for row in measured:
        mark = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[row.met]
        wanted = "" if row.wanted is None else f"{row.wanted:,.0f} {row.unit}"
        digits = 0 if row.value >= 100 else 2
        table.add_row(row.name, f"{row.value:,.{digits}f} {row.unit}", wanted, mark, row.note)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


if __name__ == "__main__":
    raise SystemExit(main())
