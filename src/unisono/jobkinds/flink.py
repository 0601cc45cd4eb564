"""Flink's deployments, which Flink's own operator runs: a job manager and task managers, often for one job."""

from __future__ import annotations

from typing import Final

from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.tables import FlagTable, PodTable, StateTable, Table, family

FLINK: Final[tuple[JobKind, ...]] = family(
    Table(
        group="flink.apache.org",
        version="v1beta1",
        kind="FlinkDeployment",
        plural="flinkdeployments",
        pods=[
            PodTable(
                role="jobmanager",
                template="spec.jobManager.podTemplate",
                count="spec.jobManager.replicas",
                requests={"cpu": "spec.jobManager.resource.cpu", "memory": "spec.jobManager.resource.memory"},
            ),
            PodTable(
                role="taskmanager",
                template="spec.taskManager.podTemplate",
                count="spec.taskManager.replicas",
                later=True,
                requests={"cpu": "spec.taskManager.resource.cpu", "memory": "spec.taskManager.resource.memory"},
            ),
        ],
        templates=["spec.podTemplate"],
        replicas="spec.taskManager.replicas",
        suspend=FlagTable(path="spec.job.state", value="suspended", otherwise="running"),
        ended=StateTable(
            path="status.jobStatus.state",
            phases={
                "Completed": ["FINISHED"],
                "Failed": ["FAILED"],
                "Terminated": ["CANCELED"],
                "Running": ["RUNNING"],
                "Suspended": ["SUSPENDED"],
                "Restarting": ["RESTARTING", "RECONCILING"],
            },
            message="status.error",
        ),
        makes=["deployments.apps"],
        one_group=True,
        units="jvm",
    )
)
