"""Other domains for the sub-groups of a gang, where the best one of each did not leave room for all.

A small sub-group may take the only domain that has room for a large one. Within a gang order means nothing, so the
largest comes first, and where one finds no domain any more, those before it are tried in others, depth first. What has
failed once with so many places left is not tried again, and the number of trials is bounded as for other ways to place
pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from unisono.cluster.records import Task
from unisono.engine.placement.domain_search import Search
from unisono.engine.placement.other_ways import Effort
from unisono.engine.placement.remaining_tasks import RemainingByGroup
from unisono.engine.session.sub_groups import SubGroup, by_class

Mark = tuple[int, list[tuple[SubGroup, tuple[int, dict[int, int]]]]]
"""A checkpoint of the transaction, and where every group of the job was."""


class Trials(Protocol):
    """What places one sub-group in one domain.

    Attributes:
        search: what the cycle knows of domains.
        effort: what is left of it.
    """

    search: Search
    effort: Effort

    def least_of(self, group: SubGroup, tasks: Sequence[Task]) -> int:
        """How many of a sub-group's tasks a domain must hold to be tried."""
        ...

    def able(self, group: SubGroup, top: int, own: RemainingByGroup) -> list[int]:
        """Domains of a sub-group below ``top`` that may hold what it needs, the nearest ones first."""
        ...

    def ranked(self, group: SubGroup, domains: list[int]) -> list[tuple[int, float]]:
        """Domains with their points, best first."""
        ...

    def try_group(
        self, group: SubGroup, domain: int, own: RemainingByGroup, *, settled: bool
    ) -> tuple[RemainingByGroup, Mark] | None:
        """Place a sub-group's tasks in one domain; None, and nothing changed, when that is not enough."""
        ...

    def is_ready(self, group: SubGroup) -> bool:
        """Whether the sub-group can start."""
        ...

    def undo(self, mark: Mark) -> None:
        """Take everything back to a mark."""
        ...


_State = tuple[int, tuple[tuple[int, ...], ...]]


class OtherDomains:
    """One search; what it places stands in the transaction, and what is left of the tasks in ``remaining``.

    Attributes:
        points: of the domains that were chosen.
    """

    def __init__(self, solver: Trials, top: int, remaining: RemainingByGroup, *, settled: bool) -> None:
        self._solver, self._top, self._remaining, self._settled = solver, top, remaining, settled
        self._failed: set[_State] = set()
        self.points = 0.0

    def place(self, groups: Sequence[SubGroup]) -> bool:
        """Place each of the groups in a domain of its own choice; nothing has changed where that cannot be done."""
        waiting = sorted(groups, key=lambda group: (-self._least(group), group.number))
        return len(waiting) > 1 and self._go(waiting)

    def _least(self, group: SubGroup) -> int:
        return self._solver.least_of(group, self._remaining.of_group(group).left())

    def _go(self, groups: Sequence[SubGroup]) -> bool:
        """The first of the groups in each of its domains, and the rest wherever that leaves room."""
        if not groups:
            return True
        able = [self._solver.able(group, self._top, self._remaining.of_group(group)) for group in groups]
        if not all(able) or (state := self._state(groups, able)) in self._failed:
            return False
        group, effort = groups[0], self._solver.effort
        own = self._remaining.of_group(group)
        for domain, points in self._solver.ranked(group, able[0]):
            if effort.trials <= 0 or effort.placements <= 0:
                return False
            effort.trials -= 1
            effort.placements -= len(own.left())
            tried = self._solver.try_group(group, domain, own, settled=self._settled)
            if tried is None:
                continue
            left, mark = tried
            before = {key: self._remaining.by_group[key] for key in left.by_group}
            self._remaining.by_group |= left.by_group
            if (not self._settled or self._solver.is_ready(group)) and self._go(groups[1:]):
                self.points += points
                return True
            self._remaining.by_group |= before
            self._solver.undo(mark)
        self._failed.add(state)
        return False

    def _state(self, groups: Sequence[SubGroup], able: Sequence[Sequence[int]]) -> _State:
        """How many pods of each kind that is left the domains have room for: what a failure depends on."""
        domains = sorted({at for each in able for at in each})
        classes = by_class(task for group in groups for task in self._remaining.of_group(group).left())
        slots = self._solver.search.slots
        return len(groups), tuple(tuple(slots.room(each, domains)) for each in classes)
