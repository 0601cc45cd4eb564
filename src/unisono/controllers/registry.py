"""All controllers of a control plane."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from prometheus_client import CollectorRegistry

from unisono.api.kind_families import BATCH_JOBS, REPLICA_SETS, STATEFUL_SETS
from unisono.api.topology_sources import Fetch
from unisono.controllers.budgets.controller import BudgetController
from unisono.controllers.claims.decide import LimitClaimController
from unisono.controllers.cronjob.controller import CronJobController, TtlController
from unisono.controllers.elastic.controller import ElasticController
from unisono.controllers.execution import Offload
from unisono.controllers.failed_nodes import FailedNodesController
from unisono.controllers.floating import FloatingResourceController
from unisono.controllers.hyperjob.controller import HyperJobController
from unisono.controllers.hypernode.controller import (
    HyperNodeController,
    HyperNodeDiscoveryController,
    HyperNodeSourceController,
)
from unisono.controllers.job.controller import COUNT_SECONDS, JobController
from unisono.controllers.jobflow.controller import JobFlowController, JobTemplateController
from unisono.controllers.kueue import ServedJobController
from unisono.controllers.metrics import NoProber, Prober
from unisono.controllers.node_checks.controller import NodeCheckController
from unisono.controllers.node_faults import NodeFaultsController
from unisono.controllers.node_scaling.controller import NodeScalingController
from unisono.controllers.node_scaling.interruption import InterruptionController
from unisono.controllers.node_scaling.provisioning import ProvisioningController
from unisono.controllers.podgroup.controller import SCHEDULER_NAMES, PodGroupController, WorkloadGroupController
from unisono.controllers.podgroup.kubernetes import KubernetesGroupController
from unisono.controllers.queue import QueueController
from unisono.controllers.queue_quotas import QueueQuotasController
from unisono.controllers.recorder import Recorder
from unisono.controllers.training.registry import MADE_BY_MEMBERS, training_controllers
from unisono.jobkinds.kueue import SERVED
from unisono.kube.controller import Controller

# Source of the controllers' events.
COMPONENT = "unisono-controllers"


def all_controllers(
    recorder: Recorder,
    *,
    scheduler_names: Collection[str] = SCHEDULER_NAMES,
    default_queue: str = "default",
    offload: Offload = asyncio.to_thread,
    foreign_kinds: Collection[str] = (),
    prober: Prober | None = None,
    fetch: Fetch | None = None,
    count_seconds: float = COUNT_SECONDS,
    registry: CollectorRegistry | None = None,
    runs_jobs: bool = True,
    all_reviewed: bool = False,
) -> list[Controller]:
    """One instance of every controller, to be run by ``kube.controller.Manager``.

    Client and clock come from the manager.

    Args:
        recorder: records events; its component is ``COMPONENT``.
        scheduler_names: ``schedulerName`` of pods that this control plane schedules.
        default_queue: queue of jobs that name none.
        offload: runs what computes for long away from the event loop.
        foreign_kinds: training kinds, such as ``PyTorchJob``, that an operator of their own runs.
        prober: asks pods where flows have probes; without one no HTTP or TCP probe holds.
        fetch: asks servers that know the network, or how many licences there are; without one none of them answers.
        count_seconds: longest time for which counts of pods in a job's status may be out of date.
        registry: gets the controllers' metrics.
        all_reviewed: see `PodGroupController`.
        runs_jobs: False on a hub, whose members make the pods of jobs; what makes jobs stays.

    Raises:
        ConfigError: a foreign kind is unknown.
    """
    jobs: list[Controller] = [
        JobController(recorder, offload, count_seconds=count_seconds, registry=registry),
        ElasticController(recorder),
        BudgetController(recorder, default_queue),
        PodGroupController(recorder, scheduler_names, all_reviewed=all_reviewed),
        KubernetesGroupController(scheduler_names),
        LimitClaimController(recorder, scheduler_names),
        WorkloadGroupController(REPLICA_SETS, scheduler_names),
        WorkloadGroupController(STATEFUL_SETS, scheduler_names),
        WorkloadGroupController(BATCH_JOBS, scheduler_names),
        *(ServedJobController(kind, recorder) for kind in SERVED if kind.kind.kind not in foreign_kinds),
    ]
    made_by_members = () if runs_jobs else MADE_BY_MEMBERS
    return [
        QueueController(recorder, default_queue),
        QueueQuotasController(recorder),
        *(jobs if runs_jobs else ()),
        FailedNodesController(recorder),
        NodeCheckController(recorder),
        NodeFaultsController(recorder),
        TtlController(),
        HyperNodeController(),
        HyperNodeDiscoveryController(recorder),
        HyperNodeSourceController(recorder, fetch),
        FloatingResourceController(fetch),
        NodeScalingController(recorder),
        InterruptionController(recorder),
        ProvisioningController(recorder),
        CronJobController(recorder),
        JobFlowController(recorder, prober or NoProber(), registry),
        JobTemplateController(),
        HyperJobController(recorder),
        *training_controllers(recorder, offload, {*foreign_kinds, *made_by_members}),
    ]
