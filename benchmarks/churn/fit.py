"""Growth by a straight line through the samples after the warm-up (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import linear_regression
from typing import Any

WARM_UP = 1 / 4
"""Part of the samples that is left out: caches and history fill up first."""
PER = 100_000


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures after so many pods: bytes of memory and of files, entries, objects by class, CPU seconds."""

    pods: int
    seconds: float
    figures: Mapping[str, float] = field(default_factory=dict)


def growth(samples: Sequence[Sample]) -> dict[str, dict[str, Any]]:
    """Of each figure: its first and last value after the warm-up, and its slope per 100,000 pods."""
    kept = samples[int(len(samples) * WARM_UP) :]
    if len(kept) < 2 or kept[0].pods == kept[-1].pods:
        return {}
    found = {}
    for name in sorted({name for sample in kept for name in sample.figures}):
        values = [sample.figures.get(name, 0.0) for sample in kept]
        slope = linear_regression([sample.pods for sample in kept], values).slope * PER
        found[name] = {"first": values[0], "last": values[-1], "per_100000": slope}
    return found


def growing(samples: Sequence[Sample], least: float = 50.0) -> list[tuple[str, float]]:
    """Figures that rose over each third of the samples after the warm-up, steepest first."""
    kept = samples[int(len(samples) * WARM_UP) :]
    third = len(kept) // 3
    if not third:
        return []
    found = []
    for name, one in growth(samples).items():
        values = [sample.figures.get(name, 0.0) for sample in kept]
        means = [sum(values[part * third : (part + 1) * third]) / third for part in range(3)]
        if means[0] < means[1] < means[2] and one["per_100000"] >= least:
            found.append((name, one["per_100000"]))
    return sorted(found, key=lambda item: -item[1])
