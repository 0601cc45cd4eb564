"""``python -m benchmarks.answers [--only NAME] [--output json]``: judge the answers to why jobs are stuck."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks.answers.case import FOLDER, cases
from benchmarks.answers.judge import Result, judge
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
    options = parser.parse_args()
    configure_logs(level="critical")
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


if __name__ == "__main__":
    raise SystemExit(main())
