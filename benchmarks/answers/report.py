"""Results as a table, as totals, and grouped by what is wrong (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from benchmarks.answers.judge import Result


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
