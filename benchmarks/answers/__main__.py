"""``python -m benchmarks.answers [--only NAME] [--output json]``: judge the answers to why jobs are stuck."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from benchmarks.answers.case import FOLDER, Case, cases
from benchmarks.answers.composed import figures, judge_composed
from benchmarks.answers.judge import Result, judge
from benchmarks.answers.mutations import drawn
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


# Results as a table, as totals, and grouped by what is wrong (pure).


def row(result: Result) -> str:
    """One line of a case: first line, offered fixes and those that work, fixes that are missing."""
    if result.unsound:
        return f"{result.name:<44} UNSOUND {result.unsound}"
    first = "right" if not result.lacking else "WRONG"
    offered = len(result.works) + len(result.fails)
    words = f" +{len(result.words)} in words" if result.words else ""
    said = f"; false: {len(result.false)}" if result.false else ""
    return (
        f"{result.name:<44} {first:<6} fixes {len(result.works)}/{offered}{words}; missing {len(result.missing)}{said}"
    )


def as_json(result: Result) -> dict[str, Any]:
    """One case for programs; of the offers their words."""
    values = {one.name: getattr(result, one.name) for one in fields(result)}
    return values | {"offers": [offer.text for offer in result.offers]}


def totals(results: Sequence[Result]) -> dict[str, int | float]:
    """Figures of all cases."""
    sound = [one for one in results if not one.unsound]
    return {
        "cases": len(results),
        "unsound": len(results) - len(sound),
        "first lines right": sum(not one.lacking for one in sound),
        "nothing false said": sum(not one.false for one in sound),
        "fixes offered": sum(len(one.works) + len(one.fails) for one in sound),
        "fixes that work": sum(len(one.works) for one in sound),
        "offers in words only": sum(len(one.words) for one in sound),
        "fixes missing": sum(len(one.missing) for one in sound),
        "cases with nothing wrong": sum(one.right for one in sound),
        "CPU seconds": round(sum(one.seconds for one in results), 1),
    }


def grouped(results: Sequence[Result]) -> Iterator[str]:
    """What is wrong, the most frequent kind first."""
    kinds = {
        "first line does not name the root cause": [
            f"{one.name}: lacks {one.lacking}\n    {one.lines[0]}" for one in results if one.lacking and one.lines
        ],
        "expected fix not offered": [f"{one.name}: {fix}" for one in results for fix in one.missing],
        "offered fix does not start the job": [f"{one.name}: {fix}" for one in results for fix in one.fails],
        "says what is false": [f"{one.name}: {one.false}" for one in results if one.false],
        "case is not sound": [f"{one.name}: {one.unsound}" for one in results if one.unsound],
    }
    for title, found in sorted(kinds.items(), key=lambda item: -len(item[1])):
        if found:
            yield f"\n{title}: {len(found)}"
            yield from (f"  {line}" for line in found)


if __name__ == "__main__":
    raise SystemExit(main())
