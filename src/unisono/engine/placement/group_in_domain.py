"""A sub-group of a job, or all of a job with topology, in one domain."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.cycle.reports import FitErrors
from unisono.engine.placement.domain_search import Search
from unisono.engine.placement.domain_taker import DomainTaker
from unisono.engine.placement.group_rules import GroupRules
from unisono.engine.placement.other_ways import Within
from unisono.engine.placement.remaining_tasks import RemainingTasks
from unisono.engine.placement.task_loop import TaskGroup
from unisono.engine.session.sub_groups import SubGroup


class GroupInDomain(TaskGroup):
    """One trial to place a group in a domain.

    Attributes:
        promise: see `Solver`.
        stuck: the last task that found no node.

    """

    def __init__(
        self,
        rules: GroupRules,
        search: Search,
        group: SubGroup,
        domain: int,
        within: Within | None = None,
        *,
        promise: bool,
    ) -> None:
        super().__init__(rules.cycle, rules.job, within)
        self.rules = rules
        self.search = search
        self.group = group
        self.domain = domain
        self.promise = promise
        self.stuck: Task | None = None

    def missing(self) -> int:
        """See `GroupRules`."""
        return self.rules.missing(self.group)

    def ready(self) -> bool:
        """See `GroupRules`."""
        return self.rules.ready(self.group)

    def may_start(self, left: RemainingTasks) -> bool:
        """See `GroupRules`."""
        return self.rules.may_start(self.group, left)

    def taker(self, pod_class: PodClass, *, future: bool) -> DomainTaker:
        """The nodes of the domain."""
        kept = self.within.get(pod_class.id)
        return self.search.taker(self.group, self.domain, pod_class, kept, future=future)

    def futures(self, now: int, *, nominated: bool) -> Sequence[bool]:
        """What is free first, unless places are only promised; then what is being released."""
        later = self.promise or self.cycle.session.releasing
        return (False,) * (now > 0 and not self.promise) + (True,) * later

    def nominated(self, task: Task) -> int:
        """Only nodes of the domain."""
        column = super().nominated(task)
        return column if column >= 0 and column in self.search.tree.columns[self.domain] else -1

    def took(self, column: int) -> None:
        """The group follows its places."""
        self.group.took(column)

    def refused(self, task: Task, errors: FitErrors) -> None:
        """Keep the reason, too: it is the same in every domain."""
        super().refused(task, errors)
        self.stuck = task

    def found_no_node(self, task: Task, now: int) -> None:
        """Why is found out when no domain works."""
        self.stuck = task
