"""``python -m benchmarks.compare --before DIR [--after DIR]``: the rows of two source trees beside each other.

Each tree has a process of its own. Both build the same row; then they are measured in turns, so that what else the
machine does meets both alike. Times are CPU seconds, and the garbage collector rests in both. The rows are those of
this tree's benchmarks; the trees only have to have ``src/unisono``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from types import TracebackType

from benchmarks.compare.rows import rows

_HERE = Path(__file__).parents[2]


class Side:
    """A process that measures one tree."""

    def __init__(self, tree: Path, *, quick: bool) -> None:
        command = [sys.executable, "-m", "benchmarks.compare.child", *(["--quick"] if quick else [])]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_HERE,
            env=os.environ | {"PYTHONPATH": str(tree.resolve() / "src"), "PYTHONHASHSEED": "0"},
        )

    def __enter__(self) -> Side:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()

    def ask(self, line: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(line, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process that measures {self.process.args} ended")
        return answer


def compare(name: str, sides: tuple[Side, Side], rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of both sides, measured in turns."""
    for side in sides:
        side.ask(name)
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for side, times in zip(sides, found, strict=True):
            times.append(float(side.ask("")))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.compare", description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, metavar="DIR", help="the other tree")
    parser.add_argument("--after", type=Path, default=_HERE, metavar="DIR", help="this tree by default")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each row, on each side")
    parser.add_argument("--quick", action="store_true", help="small clusters")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose group or name holds the text")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    if options.output == "table":
        print("| what | before, ms | after, ms | after/before: fastest | median |\n|---|---|---|---|---|")
    for name, (group, _) in rows(quick=options.quick).items():
        if options.only not in group and options.only not in name:
            continue
        with Side(options.before, quick=options.quick) as before, Side(options.after, quick=options.quick) as after:
            pair = compare(name, (before, after), options.rounds)
        _print(name, *pair, output=options.output)


def _print(name: str, before: list[float], after: list[float], *, output: str) -> None:
    if output == "json":
        print(json.dumps({"name": name, "before": before, "after": after}), flush=True)
        return
    fastest, middle = min(after) / min(before), median(after) / median(before)
    print(f"| {name} | {min(before) * 1e3:.4g} | {min(after) * 1e3:.4g} | {fastest:.3f} | {middle:.3f} |", flush=True)


if __name__ == "__main__":
    main()
