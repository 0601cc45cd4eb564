"""Sub-groups of a job (Volcano's SubJobs): which tasks belong together, how close, and where they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.groups import SubGroupPolicy, TopologyWish
from unisono.cluster.hypertree import NOWHERE, HyperNodeTree
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import Vector, fitted
from unisono.cluster.status import ALLOCATED_STATES, READY_STATES, TaskStatus

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session

# Equal tasks: in runs, which are placed together, and counted.

_POD_CLASS = attrgetter("pod_class")


def runs(tasks: list[Task]) -> list[list[Task]]:
    """Consecutive tasks of the same class and role; a task that is nominated for a node stands alone."""
    grouped: list[list[Task]] = []
    for task in tasks:
        if grouped:
            last = grouped[-1][-1]
            if (
                last.pod_class is task.pod_class
                and last.role == task.role
                and not task.nominated_node
                and not last.nominated_node
            ):
                grouped[-1].append(task)
                continue
        grouped.append([task])
    return grouped


def by_class(tasks: Iterable[Task]) -> Counter[PodClass]:
    """How many of the tasks are of each class, classes in the order in which they come first."""
    return Counter(map(_POD_CLASS, tasks))


def requested(tasks: Iterable[Task], rows: int) -> Vector:
    """``[rows]`` what the tasks request together."""
    total: Vector = np.zeros(rows, dtype=np.int64)
    for pod_class, number in by_class(tasks).items():
        total += fitted(pod_class.vector, rows) * np.int64(number)
    return total


_HELD = frozenset((*ALLOCATED_STATES, TaskStatus.PIPELINED))
_READY = frozenset(READY_STATES)
_PLACED = frozenset((*READY_STATES, TaskStatus.PIPELINED))
_PROMISED = frozenset((TaskStatus.PIPELINED,))


class SubGroup:
    """Tasks of one job that form a gang of their own; a job without policies is one group.

    A group may be made of others: then its members are these groups, and what they hold is its own as well.

    Attributes:
        key: the job's key for tasks that no policy covers, else ``{job}/{policy}-{values}``.
        policy: index of its policy, -1 for tasks that none covers.
        name: of the policy, ``""`` without one.
        number: order among the groups of the job.
        tasks: all its tasks.
        parts: the groups that it is made of; none where its members are tasks.
        above: the group that it is one of the parts of, None without one.
        minimum: members that must have a place, or be ready, for the group to be ready.
        limit: highest tier that may join its tasks, None for no bound.
        wants_topology: it asks for a topology, hard or soft.
        at: lowest HyperNode that holds all its tasks that have a place; -1 when none has.
        on: tasks that have a place, by lowest HyperNode of their node.
    """

    __slots__ = (
        "above", "at", "job", "key", "limit", "minimum", "name", "number", "on", "parts", "policy", "tasks", "tree",
        "wants_topology",
    )  # fmt: skip

    def __init__(self, job: JobState, tree: HyperNodeTree, key: str, policy: int, number: int) -> None:
        self.job = job
        self.tree = tree
        self.key = key
        self.policy = policy
        self.name = ""
        self.number = number
        self.tasks: list[Task] = []
        self.parts: list[SubGroup] = []
        self.above: SubGroup | None = None
        self.minimum = 1
        self.limit: int | None = None
        self.wants_topology = False
        self.at = NOWHERE
        self.on: dict[int, int] = {}

    def count(self, states: frozenset[TaskStatus]) -> int:
        """Tasks that are in one of the states in this session."""
        status = self.job.status
        return sum(status(task) in states for task in self.tasks)

    @property
    def ready_count(self) -> int:
        """Members that are ready: tasks that hold a place or have succeeded."""
        return self.members(_READY)

    @property
    def placed_count(self) -> int:
        """As ``ready_count``, pipelined ones included."""
        return self.members(_PLACED)

    def members(self, states: frozenset[TaskStatus]) -> int:
        """Members that are in one of the states: tasks, or groups of which enough members are."""
        if not self.parts:
            return self.count(states)
        return sum(part.members(states) >= part.minimum for part in self.parts)

    def lacking(self, states: frozenset[TaskStatus] = _READY) -> int:
        """Tasks that it takes at least until enough members are in one of the states."""
        missing = self.minimum - self.members(states)
        if not self.parts or missing <= 0:
            return max(missing, 0)
        return sum(sorted(filter(None, (part.lacking(states) for part in self.parts)))[:missing])

    @property
    def lineage(self) -> Iterator[SubGroup]:
        """The group, and those that it is part of, from the inside out."""
        group: SubGroup | None = self
        while group is not None:
            yield group
            group = group.above

    @property
    def leaves(self) -> Iterator[SubGroup]:
        """The groups of tasks that it is made of; itself where it has no parts."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves

    @property
    def priority(self) -> int:
        """Of its most important task."""
        return max((task.priority for task in self.tasks), default=0)

    # ---- where it is

    def took(self, columns: Iterable[int]) -> None:
        """As many more tasks have places, on these nodes."""
        leaf_of = self.tree.leaf.item
        leaves = Counter(map(leaf_of, columns))
        for group in self.lineage:
            for leaf, number in leaves.items():
                group.on[leaf] = group.on.get(leaf, 0) + number
                group.at = group.tree.common(group.at, leaf)

    def mark(self) -> tuple[int, dict[int, int]]:
        """What `restore` needs to bring the present places back."""
        return self.at, dict(self.on)

    def restore(self, mark: tuple[int, dict[int, int]]) -> None:
        """Forget the places taken since ``mark``."""
        self.at, self.on = mark[0], dict(mark[1])

    def locate(self, session: Session) -> None:
        """Find out where its tasks are."""
        self.at, self.on = NOWHERE, {}
        index, columns = session.snapshot.nodes.index, list[int]()
        for task in self.tasks:
            if self.job.status(task) in _HELD:
                place = self.job.places.get(task.key)
                column = place[1] if place is not None else index.get(task.node, -1)
                if column >= 0:
                    columns.append(column)
        self.took(columns)

    def __repr__(self) -> str:
        return f"SubGroup({self.key}, {len(self.tasks)} tasks)"


def effective(wish: TopologyWish | None, tree: HyperNodeTree, otherwise: int | None = None) -> int | None:
    """Highest tier that a wish allows; None where it sets no bound.

    A soft wish is a hard one that may go up to ``otherwise``, by default to the virtual root: tight domains are tried
    first. A hard one without a tier, or with a name that no HyperNode has, sets no bound.
    """
    if wish is None:
        return None
    if not wish.hard:
        return tree.top_tier if otherwise is None else otherwise
    return tree.tier_names.get(wish.tier_name) if wish.tier is None else wish.tier


def is_grouped(job: JobState, tree: HyperNodeTree) -> bool:
    """Whether topology or sub-groups matter for the job; all others are placed on all nodes at once."""
    record = job.record
    return bool(record.sub_groups) or (record.topology is not None and effective(record.topology, tree) is not None)


def wants_topology(session: Session, job: JobState) -> bool:
    """Whether any of the job's sub-groups, or the job where it has none, asks for a topology, hard or soft."""
    return is_grouped(job, session.snapshot.hyper_nodes) and any(
        group.wants_topology for group in groups_of(session, job)
    )


def is_bounded(session: Session, job: JobState) -> bool:
    """Whether a bound of the job, or of one of its sub-groups, leaves nodes out."""
    tree = session.snapshot.hyper_nodes
    if not is_grouped(job, tree):
        return False
    groups = groups_of(session, job)
    limits = [groups.limit, *(group.limit for group in (*groups, *groups.inner))]
    return any(limit is not None and limit < tree.top_tier for limit in limits)


def limit_of(job: JobState, tree: HyperNodeTree) -> int | None:
    """Highest tier that may join the tasks of the whole job, None for no bound."""
    return effective(job.record.topology, tree)


class Groups(list[SubGroup]):
    """The groups of one job that have tasks of their own.

    Attributes:
        limit: highest tier that may join the tasks of the whole job, None for no bound.
        inner: the groups that are made of others, outer ones first.
    """

    def __init__(self, limit: int | None) -> None:
        super().__init__()
        self.limit = limit
        self.inner: list[SubGroup] = []

    @property
    def outermost(self) -> list[SubGroup]:
        """The groups that are part of no other."""
        return [group for group in (*self.inner, *self) if group.above is None]

    @property
    def at(self) -> int:
        """Lowest HyperNode that holds every task that has a place; -1 when none has."""
        lowest = NOWHERE
        for group in self:
            lowest = group.tree.common(lowest, group.at)
        return lowest


class _GroupsByJob(dict[str, Groups]):
    """The groups of the jobs that were asked about in a session, by job key."""


def groups_of(session: Session, job: JobState) -> Groups:
    """The groups of a job, in order of their policies and of their values; made once per session."""
    by_job = session.shared.of(_GroupsByJob, _GroupsByJob)
    groups = by_job.get(job.key)
    if groups is None:
        groups = by_job[job.key] = _make(session, job, job.record.topology, job.record.sub_groups)
    return groups


def _make(
    session: Session, job: JobState, topology: TopologyWish | None, policies: tuple[SubGroupPolicy, ...]
) -> Groups:
    tree = session.snapshot.hyper_nodes
    tasks = [task for _, task in sorted(job.record.tasks.items())]
    members: dict[tuple[int, tuple[str, ...]], list[Task]] = {}
    for task in tasks:
        members.setdefault(_membership(task, policies), []).append(task)
    groups = Groups(effective(topology, tree))
    outer = _outer(job, tree, policies, groups)
    for (policy, values), own in sorted(members.items(), key=lambda item: (item[0][0], _by_value(item[0][1]))):
        key = f"{job.key}/{policies[policy].name}-{'-'.join(values)}" if policy >= 0 else job.key
        group = SubGroup(job, tree, key, policy, len(groups))
        group.tasks = own
        if policy >= 0 and policies[policy].parent in outer:
            _join(group, outer[policies[policy].parent])
        _describe(group, policies, groups.limit, wanted=topology is not None)
        group.locate(session)
        groups.append(group)
    groups.inner = [group for group in groups.inner if group.parts]
    return groups


def _outer(
    job: JobState, tree: HyperNodeTree, policies: tuple[SubGroupPolicy, ...], groups: Groups
) -> dict[str, SubGroup]:
    """The groups of policies that others name as their parent, by name; those above them come first."""
    parents = {policy.parent for policy in policies if policy.parent}
    if not parents:
        return {}
    outer: dict[str, SubGroup] = {}
    waiting = [(at, policy) for at, policy in enumerate(policies) if policy.name in parents]
    while ready := [each for each in waiting if each[1].parent in outer or each[1].parent not in parents]:
        for at, policy in ready:
            group = outer[policy.name] = SubGroup(job, tree, f"{job.key}/{policy.name}", at, at - len(policies))
            _describe(group, policies, groups.limit, wanted=False)
            group.minimum = max(policy.minimum, 1)
            group.above = outer.get(policy.parent)
            groups.inner.append(group)
        waiting = [each for each in waiting if each not in ready]
    return outer


def _join(group: SubGroup, above: SubGroup) -> None:
    """Make a group one of the parts of another, and its tasks tasks of all above it."""
    group.above = above
    for inner, outer in pairwise(group.lineage):
        if inner not in outer.parts:
            outer.parts.append(inner)
        outer.tasks += group.tasks


def _membership(task: Task, policies: Iterable[SubGroupPolicy]) -> tuple[int, tuple[str, ...]]:
    for index, policy in enumerate(policies):
        values = policy.values(task.labels, task.part)
        if values is not None:
            return index, values
    return -1, ()


def _by_value(values: tuple[str, ...]) -> tuple[tuple[bool, int, str], ...]:
    """Numbers by their size, before texts."""
    return tuple((not value.isdecimal(), int(value) if value.isdecimal() else 0, value) for value in values)


def _describe(group: SubGroup, policies: tuple[SubGroupPolicy, ...], whole: int | None, *, wanted: bool) -> None:
    if group.policy < 0:
        group.limit, group.wants_topology = whole, wanted
        group.minimum = 1 if policies else group.job.min_member
        return
    policy = policies[group.policy]
    group.name = policy.name
    group.minimum = policy.size
    group.limit = effective(policy.wish, group.tree, whole)
    group.wants_topology = policy.wish is not None


def lineage(policies: Sequence[SubGroupPolicy], numbers: Mapping[str, int], policy: SubGroupPolicy) -> Iterator[int]:
    """Indexes of the policies that a policy is part of, from the inside out; ``numbers`` are those of all by name."""
    seen: set[int] = set()
    while policy.parent and (above := numbers.get(policy.parent, -1)) >= 0 and above not in seen:
        seen.add(above)
        policy = policies[above]
        yield above


def outermost_policies(policies: Sequence[SubGroupPolicy]) -> list[tuple[int, SubGroupPolicy]]:
    """Policies that are part of no other, with their indexes: what the gang itself needs."""
    names = {policy.name for policy in policies}
    return [(at, each) for at, each in enumerate(policies) if not each.parent or each.parent not in names]


def begun_groups(session: Session, job: JobState) -> list[SubGroup]:
    """Groups that this session promised places for some of their tasks, and for fewer than they need together."""
    leaves = (leaf for group in groups_of(session, job).outermost if group.policy >= 0 for leaf in group.leaves)
    return [leaf for leaf in leaves if leaf.placed_count < leaf.minimum and leaf.count(_PROMISED)]


def short_policies(session: Session, job: JobState, *, pipelined: bool) -> list[tuple[SubGroupPolicy, int]]:
    """Policies with fewer ready groups than their minimum, and how many they have; parts count in what they are of."""
    policies, states = job.record.sub_groups, _PLACED if pipelined else _READY
    if not any(policy.minimum for policy in policies):
        return []
    have = [0] * len(policies)
    for group in groups_of(session, job).outermost:
        if group.parts:
            have[group.policy] = group.members(states)
        elif group.policy >= 0:
            have[group.policy] += group.members(states) >= group.minimum
    return [(policy, have[at]) for at, policy in outermost_policies(policies) if have[at] < policy.minimum]
