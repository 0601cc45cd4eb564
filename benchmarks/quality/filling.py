"""Q1 as a suite: its cases, and its part of docs/quality.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.quality.openb import BOUND, POLICIES, PUBLISHED, TRACES, run
from benchmarks.quality.runner import Case, Only

FOLDER = "openb-fgd-2023"
_FIRST_SEED = 42
_LIST = "openb_pod_list_"


def cases(traces: Path, seeds: int, only: Only) -> list[Case]:
    """Every policy on every published list; ``only`` may name other lists of the folder."""
    policies = only.of(POLICIES)
    found = sorted(
        file.name.removeprefix(_LIST).partition(".")[0] for file in (traces / FOLDER).glob(f"{_LIST}*.csv.gz")
    )
    lists = only.of(TRACES, besides=found)
    return [
        Case("Q1", {"policy": policy, "trace": trace, "seed": seed}, run, (traces / FOLDER, policy, trace, seed))
        for seed in range(_FIRST_SEED, _FIRST_SEED + seeds)
        for policy in reversed(policies)
        for trace in lists
    ]


def section(lines: Iterable[Mapping[str, Any]]) -> str:
    """The part of the page about Q1."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in lines:
        found[line["policy"], line["trace"]].append(line["unallocated"])
    means = {key: fmean(values) for key, values in found.items()}
    fewest, most = min(map(len, found.values()), default=0), max(map(len, found.values()), default=0)
    head = ["list", *POLICIES, "bound", "room closed"]
    rows = [head, ["---"] * len(head)]
    for trace in [*TRACES, *sorted({trace for _, trace in found} - set(TRACES))]:
        row = [trace]
        for policy in POLICIES:
            ours, paper = means.get((policy, trace)), PUBLISHED.get(policy, {}).get(trace)
            text = "" if ours is None else f"{ours:.2f}"
            row.append(f"{text} ({paper:.2f})" if paper is not None else text)
        own = means.get(("unisono", trace))
        base, bound = PUBLISHED["fgd"].get(trace), BOUND.get(trace)
        if base is None or bound is None:
            rows.append([*row, "", ""])
            continue
        closed = "" if own is None else f"{(base - own) / (base - bound):.0%}"
        rows.append([*row, f"{bound:.2f}", closed])
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    runs = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return f"Runs behind each figure: {runs}; published means of ten runs in brackets.\n\n{table}\n"
