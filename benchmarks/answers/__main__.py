"""``python -m benchmarks.answers [--only NAME] [--output json]``: judge the answers to why jobs are stuck."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

from benchmarks.answers.case import FOLDER, Case, cases
from benchmarks.answers.composed import figures, judge_composed
from benchmarks.answers.judge import Result, judge
from benchmarks.answers.mutations import drawn
from benchmarks.answers.report import as_json, grouped, row, totals
from unisono.standalone.logs import configure_logs


def main() -> int:
    """Judge and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.answers", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="cases whose names contain this")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.add_argument("--sound", action="store_true", help="only look whether the cases are sound")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="every N-th case, beginning with the K-th")
    parser.add_argument("--cases", type=Path, default=FOLDER, metavar="FOLDER", help="where the cases are")
    parser.add_argument("--answers", action="store_true", help="print the whole answers")
    parser.add_argument("--causes", type=int, metavar="N", help="in place of them: worlds with N causes at once")
    parser.add_argument("--draws", type=int, default=100, metavar="COUNT", help="so many of those worlds")
    parser.add_argument("--seed", type=int, default=1, metavar="SEED", help="which of them")
    parser.add_argument("--every", action="store_true", help="carry out all offers there, not the first one only")
    options = parser.parse_args()
    configure_logs(level="critical")
    if options.causes:
        made = drawn(options.draws, options.seed, options.causes)
        return _compose([case for case in made if options.only in case.name], every=options.every)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="unisono-answers-") as folder:
        part, parts = map(int, options.part.split("/"))
        for case in list(cases(options.only, options.cases))[part - 1 :: parts]:
            results.append(judge(case, Path(folder), soundness_only=options.sound))
            if options.output == "text":
                print(row(results[-1]), flush=True)
                if options.answers:
                    print("\n".join(f"      {line}" for line in results[-1].lines), flush=True)
    if options.output == "json":
        print(json.dumps({"totals": totals(results), "cases": [as_json(one) for one in results]}, indent=1))
    else:
        print(
            "\n".join(["", *grouped(results), "", *(f"{name}: {figure}" for name, figure in totals(results).items())])
        )
    return 0


def _compose(found: Iterable[Case], *, every: bool) -> int:
    """Worlds of several causes; 1 where a cause is not named, or the first fix does not undo them all."""
    results = []
    with tempfile.TemporaryDirectory(prefix="unisono-answers-") as folder:
        for case in found:
            results.append(judge_composed(case, Path(folder), every=every))
            print(results[-1], flush=True)
    print("\n".join(["", *(f"{name}: {figure}" for name, figure in figures(results).items())]))
    return int(any(one.sound and (one.why or one.fails or not one.named) for one in results))


if __name__ == "__main__":
    raise SystemExit(main())
