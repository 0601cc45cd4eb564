"""Floating resources, such as licences: how many there are, and who outside of this cluster holds some."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from unisono.api.groups.quota import FloatingResource
from unisono.api.licenses import PREFIX, UNIT, known_amounts
from unisono.api.times import parse_time
from unisono.cluster.resources import ResourceRegistry


@dataclass(frozen=True, slots=True)
class Floating:
    """One floating resource, in engine units.

    Attributes:
        name: of the object; empty where there is none.
        amount: how many there are.
        elsewhere: how many of them are held outside of this cluster.
        until: when the count of a source is too old to be believed, seconds since the epoch.
        problem: why nothing may start with it; empty where it may.
        by_jobs: what jobs hold as a whole, beside what their pods request.
        stale_seconds: for how long a count of its source is believed.
    """

    name: str = ""
    amount: int = 0
    elsewhere: int = 0
    until: float = math.inf
    problem: str = ""
    by_jobs: int = 0
    stale_seconds: int = 0

    @property
    def most(self) -> int:
        """How many are for pods of this cluster; none where it is not known."""
        return 0 if self.problem else max(self.amount - self.elsewhere, 0)

    def at(self, now: float) -> Floating:
        """The same as it counts at a time: nothing starts on a count that is too old."""
        if self.problem or now <= self.until:
            return self
        return replace(self, problem=f"its source was last read more than {self.stale_seconds} seconds ago")


NO_FLOATING = Floating(problem="there is no FloatingResource of that name")


def floating_of(obj: FloatingResource) -> Floating:
    """The record of an object: what its source last said, where it has one."""
    amount, elsewhere, problem = known_amounts(obj)
    floating = Floating(obj.metadata.name, amount * UNIT, elsewhere * UNIT, problem=problem)
    if problem or obj.spec.source is None or obj.status.observed is None:
        return floating
    stale = obj.spec.source.stale_seconds
    return replace(floating, until=parse_time(obj.status.observed) + stale, stale_seconds=stale)


class FloatingBook:
    """All FloatingResources by name.

    Attributes:
        unknown: what counts for names without one.
    """

    def __init__(self, registry: ResourceRegistry) -> None:
        self.registry = registry
        self.unknown = NO_FLOATING
        self.by_name: dict[str, Floating] = {}

    def put(self, obj: FloatingResource) -> bool:
        """Add or change one; False when nothing differs that a cycle would decide differently for."""
        floating, name = floating_of(obj), f"{PREFIX}{obj.metadata.name}"
        self.registry.check([name])
        self.registry.row(name)
        before = self.by_name.get(floating.name)
        self.by_name[floating.name] = floating
        if before is None or floating.until - floating.stale_seconds > before.until:  # what was too old counts again
            return True
        return replace(before, until=0.0) != replace(floating, until=0.0)

    def remove(self, name: str) -> bool:
        """Forget one; False when it was unknown."""
        return self.by_name.pop(name, None) is not None

    def names(self) -> list[str]:
        """Names of all."""
        return list(self.by_name)

    def by_row(self, by_jobs: Mapping[int, int]) -> dict[int, Floating]:
        """Those that anybody asks for or that exist, with what jobs hold of them as a whole (by row)."""
        registry, records = self.registry, dict[int, Floating]()
        for row in registry.floating:
            one = self.by_name.get(registry.names[row].removeprefix(PREFIX), self.unknown)
            held = by_jobs.get(row, 0)
            records[row] = replace(one, by_jobs=held) if held else one
        return records
