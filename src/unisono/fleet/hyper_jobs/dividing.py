"""How the pods of a gang that is too large for one cluster are shared over several (pure).

All roles are counted together, node by node: what the pods of one role take is not there for those of another. Machines
that may come count as nodes that are used last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from unisono.api.groups.batch import Job, JobSpec
from unisono.api.resources import resource_list
from unisono.cluster.interning import PodClasses
from unisono.cluster.nodes import NodeTable
from unisono.cluster.podclass import PodClass
from unisono.controllers.hyperjob.decide import Share
from unisono.controllers.job.pods import PodBuilder, smallest_gang
from unisono.controllers.job.view import JobView
from unisono.controllers.node_scaling.decide import Demand, Pool, demand_of
from unisono.fleet.jobs.translation import is_to_come, within
from unisono.fleet.jobs.work import bare
from unisono.fleet.reasons import Wanted, is_allowed, together

# Names of nodes are below it.
_AFTER_ALL: Final = "\x7f"
PODS: Final = "pods"
MOST_PODS_OF_NODE: Final = resource_list({PODS: "110"})[PODS]
"""Pods that a machine takes that is to come."""
MOST_GROWN: Final = 256
"""Machines of one group that are looked at."""
MOST_SETS: Final = 256
"""Sets of clusters of one size that are looked at."""


@dataclass(frozen=True, slots=True)
class Role:
    """The pods of one task.

    Attributes:
        name: of the task.
        pod_class: of its pods.
        least: pods that the smallest gang has of it.
        total: pods in all.
        demand: what one of its pods needs of a machine that may come.
    """

    name: str
    pod_class: PodClass
    least: int
    total: int
    demand: Demand


def roles_of(table: NodeTable, spec: JobSpec, tasks: Collection[str]) -> list[Role]:
    """The roles of a job whose pods are shared, in the order of its tasks.

    Args:
        table: the hub's nodes.
        spec: of the whole job.
        tasks: names of the tasks that are shared.
    """
    view, classes = JobView(Job(spec=spec)), PodClasses(table.registry)
    least = smallest_gang(view, lambda _name: 0)
    builder = PodBuilder(view, ())
    pods = {task.name: bare(builder.build(task, 0)) for task in view.tasks}
    return [
        Role(
            task.name,
            classes.intern(pods[task.name].spec, pods[task.name].metadata.annotations),
            least[task.name],
            task.replicas,
            demand_of(pods[task.name].spec),
        )
        for task in view.tasks
        if task.name in tasks and task.replicas
    ]


class Floor:
    """The nodes of the members that may have a gang, and what each role may use of them."""

    def __init__(
        self,
        table: NodeTable,
        roles: Sequence[Role],
        clusters: Collection[str],
        growing: Mapping[str, Sequence[Pool]] | None = None,
    ) -> None:
        """``clusters`` are those that may have pods of the gang, ``growing`` their groups of nodes that may grow."""
        self._roles, self._wanted = roles, [Wanted(role.pod_class, role.least) for role in roles]
        self._table = table
        usable = table.ready & ~table.unschedulable
        # Names are in order, so the nodes of a cluster follow each other.
        self._columns: dict[str, list[int]] = {}
        self._there = len(table.names)
        self._to_come: list[Pool] = []
        for cluster in clusters:
            start = bisect_left(table.names, within(cluster, ""))
            end = bisect_left(table.names, within(cluster, _AFTER_ALL))
            there = [at for at in range(start, end) if usable[at] and not is_to_come(table.names[at])]
            if columns := [*there, *self._grown((growing or {}).get(cluster, ()))]:
                self._columns[cluster] = columns
        classes = {id(role.pod_class): role for role in roles}
        fits = {
            key: {column for own in self._columns.values() for column in own if self._takes(column, each)}
            for key, each in classes.items()
        }
        self._fits = [fits[id(role.pod_class)] for role in roles]
        offers = [[pool.offers.get(name, 0) for pool in self._to_come] for name in table.registry.names]
        rows = len(table.allocatable)
        self._offers = np.array(offers[:rows], dtype=np.int64).reshape(rows, len(self._to_come))
        pods = table.registry.names.index(PODS) if PODS in table.registry.names else len(self._offers)
        self._offers[pods : pods + 1] = MOST_PODS_OF_NODE

    def _grown(self, pools: Sequence[Pool]) -> Iterator[int]:
        """A column for each machine that may come and that the gang could use."""
        pods = sum(role.total for role in self._roles)
        for pool in pools:
            if not pool.failing and any(pool.takes(role.demand) for role in self._roles):
                for _ in range(min(max(0, pool.most - pool.replicas), pods, MOST_GROWN)):
                    self._to_come.append(pool)
                    yield self._there + len(self._to_come) - 1

    def _takes(self, column: int, role: Role) -> bool:
        if column >= self._there:
            return self._to_come[column - self._there].takes(role.demand)
        return is_allowed(self._table, column, role.pod_class)

    @property
    def free(self) -> NDArray[np.int64]:
        """``[R, N]`` what the nodes have left, and what machines that may come have."""
        return np.hstack([(self._table.allocatable - self._table.used).clip(min=0), self._offers])

    @property
    def whole(self) -> NDArray[np.int64]:
        """``[R, N]`` what the nodes have if they are empty, and what machines that may come have."""
        return np.hstack([self._table.allocatable, self._offers])

    def room(self, amounts: NDArray[np.int64], cluster: str) -> int:
        """For how many pods of the first role, of all that it has, a cluster has room; ``amounts``: ``[R, N]``."""
        return int(self._placed(amounts, [cluster], [Wanted(self._roles[0].pod_class, self._roles[0].total)]).sum())

    def holds(self, amounts: NDArray[np.int64], shares: Sequence[Share]) -> bool:
        """Whether the smallest gang of each share finds room in its cluster; ``amounts``: ``[R, N]``."""
        by_cluster: dict[str, dict[str, int]] = {}
        for share in shares:
            numbers = by_cluster.setdefault(share.cluster, {})
            for name, number in share.least.items():
                numbers[name] = numbers.get(name, 0) + number
        sums = {role.name: sum(each.get(role.name, 0) for each in by_cluster.values()) for role in self._roles}
        if any(sums[role.name] < role.least for role in self._roles):
            return False
        for cluster, least in by_cluster.items():
            requests = [Wanted(role.pod_class, least.get(role.name, 0)) for role in self._roles]
            if int(self._placed(amounts, [cluster], requests).sum()) < sum(each.number for each in requests):
                return False
        return True

    def share(self, amounts: NDArray[np.int64], most: int) -> list[Share]:
        """The share of each cluster, in as few clusters as hold the gang; empty where ``most`` of them do not.

        Args:
            amounts: ``[R, N]`` what the nodes have: ``free``, or ``whole``.
            most: clusters at most.
        """
        least = sum(role.least for role in self._roles)
        alone = {
            cluster: int(self._placed(amounts, [cluster], self._wanted).sum()) for cluster in sorted(self._columns)
        }
        # What a cluster takes alone is its most: sets that have less together need no look.
        order = sorted((name for name, room in alone.items() if room), key=lambda name: (-alone[name], name))
        for number in range(1, min(most, len(order)) + 1):
            for chosen in islice(combinations(order, number), MOST_SETS):
                if sum(alone[name] for name in chosen) < least:
                    continue
                placed = self._placed(amounts, chosen, self._wanted)
                if int(placed.sum()) == least:
                    return self._shares(amounts, chosen, placed)
        return []

    def _placed(
        self, amounts: NDArray[np.int64], clusters: Sequence[str], wanted: Sequence[Wanted]
    ) -> NDArray[np.int64]:
        """``[C, N]`` pods by role and node of the clusters, whose nodes follow each other."""
        columns = list(chain.from_iterable(self._columns[name] for name in clusters if name in self._columns))
        number = sum(each.number for each in wanted)
        there = [at for at, column in enumerate(columns) if column < self._there]
        if len(there) == len(columns):
            return self._together(amounts[:, columns], columns, wanted)
        # Room that is there first. Where that leaves pods without a place, another order may find one.
        placed = np.zeros((len(wanted), len(columns)), dtype=np.int64)
        later = [at for at, column in enumerate(columns) if column >= self._there]
        for own in (there, later):
            left = [
                Wanted(each.pod_class, each.number - int(row.sum())) for each, row in zip(wanted, placed, strict=True)
            ]
            some = [columns[at] for at in own]
            placed[:, own] = self._together(amounts[:, some], some, left)
        if int(placed.sum()) == number:
            return placed
        return max(placed, self._together(amounts[:, columns], columns, wanted), key=lambda each: int(each.sum()))

    def _together(
        self, amounts: NDArray[np.int64], columns: Sequence[int], wanted: Sequence[Wanted]
    ) -> NDArray[np.int64]:
        """See `together`; roles whose pods are alike are placed as one, and share what that finds."""
        alike: dict[int, list[int]] = {}
        for at, each in enumerate(wanted):
            alike.setdefault(id(each.pod_class), []).append(at)
        merged = [
            Wanted(wanted[roles[0]].pod_class, sum(wanted[at].number for at in roles)) for roles in alike.values()
        ]
        fitting = [
            [at for at, column in enumerate(columns) if column in self._fits[roles[0]]] for roles in alike.values()
        ]
        placed = np.zeros((len(wanted), len(columns)), dtype=np.int64)
        for row, roles in zip(together(amounts, merged, fitting), alike.values(), strict=True):
            places = iter(np.flatnonzero(row).tolist())
            place = next(places, -1)
            left = int(row[place]) if place >= 0 else 0
            for at in roles:
                number = wanted[at].number
                while number and left:
                    taken = min(number, left)
                    placed[at, place] += taken
                    number, left = number - taken, left - taken
                    if not left and (following := next(places, None)) is not None:
                        place, left = following, int(row[following])
        return placed

    def _shares(self, amounts: NDArray[np.int64], clusters: Sequence[str], placed: NDArray[np.int64]) -> list[Share]:
        """By cluster, with the pods beyond the smallest gang where room is left, and else where most of the gang is."""
        least = self._by_cluster(clusters, placed)
        columns = list(chain.from_iterable(self._columns[name] for name in clusters))
        left = amounts[:, columns].copy()
        for role, numbers in zip(self._roles, placed, strict=True):
            vector = role.pod_class.vector[: len(left)]
            left[: len(vector)] -= vector[:, None] * numbers
        # No machines come for them.
        left[:, [at for at, column in enumerate(columns) if column >= self._there and not placed[:, at].any()]] = 0
        surplus = [Wanted(role.pod_class, role.total - role.least) for role in self._roles]
        more = self._by_cluster(clusters, self._together(left.clip(min=0), columns, surplus))
        largest = max(clusters, key=lambda name: sum(least[name].values()))
        shares = []
        for cluster in clusters:
            pods = {name: number + more[cluster][name] for name, number in least[cluster].items()}
            if cluster == largest:
                for role in self._roles:
                    pods[role.name] += role.total - role.least - sum(each[role.name] for each in more.values())
            if any(pods.values()):
                shares.append(Share(cluster, pods, least[cluster]))
        # The first pod of the first task, which is the first rank, is in the first part.
        return sorted(shares, key=lambda share: ([-number for number in share.pods.values()], share.cluster))

    def _by_cluster(self, clusters: Sequence[str], placed: NDArray[np.int64]) -> dict[str, dict[str, int]]:
        counts, start = {}, 0
        for cluster in clusters:
            end = start + len(self._columns[cluster])
            sums = placed[:, start:end].sum(axis=1).tolist()
            counts[cluster] = {role.name: int(number) for role, number in zip(self._roles, sums, strict=True)}
            start = end
        return counts
