"""LeaderWorkerSets, which their own controller runs: groups of a leader and its workers, each a gang of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from unisono.jobkinds.kind import JobKind, PodSet
from unisono.jobkinds.paths import first
from unisono.jobkinds.tables import PodTable, Table, family, number

_AT: Final = "spec.leaderWorkerTemplate"
_TABLE: Final = Table(
    group="leaderworkerset.x-k8s.io",
    version="v1",
    kind="LeaderWorkerSet",
    plural="leaderworkersets",
    pods=[
        PodTable(role="leader", template=f"{_AT}.leaderTemplate", count="spec.replicas"),
        PodTable(role="worker", template=f"{_AT}.workerTemplate", count="spec.replicas"),
    ],
    # The number of groups; each has as many pods as before.
    makes=["statefulsets.apps"],
    pods_label="leaderworkerset.sigs.k8s.io/name",
)


def _pods(obj: Any) -> Iterator[PodSet]:
    """A leader without a template of its own has the workers'."""
    leaders, workers = _TABLE.pod_sets(obj)
    size = number(first(obj, f"{_AT}.size"), 1)
    spec = leaders.spec if first(obj, f"{_AT}.leaderTemplate") is not None else workers.spec
    yield replace(leaders, spec=spec)
    count = workers.count * max(0, size - 1)
    yield replace(workers, count=count, least=count)


LEADER_WORKER_SETS: Final = replace(family(_TABLE)[0], pods=_pods)
LEADERWORKERSET: Final[tuple[JobKind, ...]] = (LEADER_WORKER_SETS,)
