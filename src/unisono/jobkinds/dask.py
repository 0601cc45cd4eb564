"""Dask's jobs and clusters, which Dask's own operator runs: a scheduler, workers and the pod that submits."""

from __future__ import annotations

from typing import Any, Final

from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.tables import PodTable, StateTable, Table, family

_NAMES: Final[dict[str, Any]] = {"group": "kubernetes.dask.org", "version": "v1"}
_GROUPS: Final = "daskworkergroups.kubernetes.dask.org"


def _workers(at: str) -> PodTable:
    return PodTable(role="worker", spec=f"{at}.spec", count=f"{at}.replicas", default=3, later=True)


def _cluster(at: str) -> list[PodTable]:
    return [PodTable(role="scheduler", spec=f"{at}.scheduler.spec"), _workers(f"{at}.worker")]


DASK: Final[tuple[JobKind, ...]] = family(
    Table(
        **_NAMES,
        kind="DaskJob",
        plural="daskjobs",
        # The pod that submits is made once the cluster is there, and ends before it.
        pods=[*_cluster("spec.cluster.spec"), PodTable(role="runner", template="spec.job", later=True)],
        inner=["spec.cluster"],
        ended=StateTable(
            path="status.jobStatus", phases={"Completed": ["Successful"], "Failed": ["Failed"], "Running": ["Running"]}
        ),
        makes=["daskclusters.kubernetes.dask.org"],
        part_label="dask.org/component",
        one_group=True,
    ),
    Table(
        **_NAMES,
        kind="DaskCluster",
        plural="daskclusters",
        pods=_cluster("spec"),
        makes=[_GROUPS, "deployments.apps"],
        own_pods=False,
        pods_label="dask.org/cluster-name",
        part_label="dask.org/component",
        one_group=True,
    ),
    Table(
        **_NAMES,
        kind="DaskWorkerGroup",
        # It goes where its cluster is.
        fleet=False,
        plural="daskworkergroups",
        pods=[_workers("spec.worker")],
        replicas="spec.worker.replicas",
        makes=["deployments.apps"],
        own_pods=False,
    ),
)
