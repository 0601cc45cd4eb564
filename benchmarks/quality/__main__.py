"""``python -m benchmarks.quality SUITE --traces FOLDER``: scheduling quality on recorded workloads.

FOLDER holds the traces, a folder each; docs/quality.md says which. The suite ``scale`` needs none. Results go into a
file, a JSON line per run; a run that is in the file is not done again. ``--write`` puts the tables of the file into
docs/quality.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.quality import backfill, chronus, filling, lingjun, muri, philly, scale, shockwave, starts
from benchmarks.quality.runner import Case, Only, done, run_all, to_stderr

PAGE = Path(__file__).resolve().parents[2] / "docs" / "quality.md"


class Suite(NamedTuple):
    """A suite: its cases from traces, seeds and names to keep, and its part of the page."""

    cases: Callable[[Path, int, Only], list[Case]]
    section: Callable[[Iterable[Mapping[str, Any]]], str]


SUITES: dict[str, Suite] = {
    "Q1": Suite(filling.cases, filling.section),
    "Q2": Suite(lambda traces, _, only: muri.cases("Q2", traces, only), muri.section),
    "Q3": Suite(lambda traces, _, only: muri.cases("Q3", traces, only), muri.section),
    "Q4": Suite(lambda traces, _, only: shockwave.cases(traces, only), shockwave.section),
    "Q5": Suite(lambda traces, _, only: philly.cases(traces, only), philly.section),
    "Q6": Suite(lambda traces, _, only: chronus.cases(traces, only), chronus.section),
    "Q7": Suite(lingjun.cases, lingjun.section),
    "Q8": Suite(lambda traces, _, only: backfill.cases(traces, only), backfill.section),
    "starts": Suite(starts.cases, starts.section),
    "scale": Suite(lambda _traces, _seeds, only: scale.cases(only), scale.section),
}


def write_page(file: Path, suites: Iterable[str], page: Path = PAGE) -> None:
    """Replace the tables of the suites between their marks in the page."""
    text, lines = page.read_text(encoding="utf-8"), done(file)
    for name in suites:
        own = [line for line in lines if line.get("suite") == name]
        if own:
            body = f"<!-- {name}: begin -->\n\n{SUITES[name].section(own)}\n<!-- {name}: end -->"
            text = re.sub(f"<!-- {name}: begin -->.*?<!-- {name}: end -->", lambda _: body, text, flags=re.S)  # noqa: B023
    page.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.quality", description=__doc__)
    parser.add_argument("suite", choices=[*SUITES, "all"])
    parser.add_argument("--traces", type=Path, help="folder with the traces")
    parser.add_argument("--seeds", type=int, default=10, help="runs per case where chance plays a part")
    parser.add_argument("--only", action="append", default=[], help="policy or trace to run; may be repeated")
    parser.add_argument("--processes", type=int, default=1, help="runs at a time")
    parser.add_argument("--out", type=Path, default=Path("quality.jsonl"), help="file of results")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/quality.md")
    options = parser.parse_args()
    names = list(SUITES) if options.suite == "all" else [options.suite]
    if options.traces is None and options.suite != "scale":
        parser.error("--traces says where the traces are")
    only = Only(options.only)
    cases = [case for name in names for case in SUITES[name].cases(options.traces, options.seeds, only)]
    if only.unknown:
        known = ", ".join(sorted(only.known))
        parser.error(f"--only {min(only.unknown)}: there is no such policy or trace here; known are {known}")
    run_all(cases, options.out, options.processes, to_stderr)
    lines = done(options.out)
    for name in names:
        print(f"## {name}\n\n{SUITES[name].section([one for one in lines if one.get('suite') == name])}")
    if options.write:
        write_page(options.out, names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
