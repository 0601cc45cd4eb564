"""How the pods of a gang that is too large for one cluster are shared over several (pure).

All roles are counted together, node by node: what the pods of one role take is not there for those of another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from unisono.api.groups.batch import Job, JobSpec
from unisono.cluster.interning import PodClasses
from unisono.cluster.nodes import NodeTable
from unisono.cluster.podclass import PodClass
from unisono.controllers.hyperjob.decide import Share
from unisono.controllers.job.pods import PodBuilder, smallest_gang
from unisono.controllers.job.view import JobView
from unisono.fleet.jobs.translation import within
from unisono.fleet.jobs.work import bare
from unisono.fleet.reasons import Wanted, is_allowed, together

# Names of nodes are below it.
_AFTER_ALL: Final = "\x7f"
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

    """

    name: str
    pod_class: PodClass
    least: int
    total: int


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
        )
        for task in view.tasks
        if task.name in tasks and task.replicas
    ]


class Floor:
    """The nodes of the members that may have a gang, and what each role may use of them."""

    def __init__(self, table: NodeTable, roles: Sequence[Role], clusters: Collection[str]) -> None:
        """``clusters`` are those that may have pods of the gang."""
        self._roles, self._wanted = roles, [Wanted(role.pod_class, role.least) for role in roles]
        self._table = table
        usable = table.ready & ~table.unschedulable
        # Names are in order, so the nodes of a cluster follow each other.
        self._columns: dict[str, list[int]] = {}
        for cluster in clusters:
            start = bisect_left(table.names, within(cluster, ""))
            end = bisect_left(table.names, within(cluster, _AFTER_ALL))
            if columns := [column for column in range(start, end) if usable[column]]:
                self._columns[cluster] = columns
        classes = {id(role.pod_class): role.pod_class for role in roles}
        fits = {
            key: {column for own in self._columns.values() for column in own if is_allowed(table, column, each)}
            for key, each in classes.items()
        }
        self._fits = [fits[id(role.pod_class)] for role in roles]
        self.whole: NDArray[np.int64] = table.allocatable

    @property
    def free(self) -> NDArray[np.int64]:
        """``[R, N]`` what the nodes have left."""
        return (self._table.allocatable - self._table.used).clip(min=0)

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
        return self._together(amounts[:, columns], columns, wanted)

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
