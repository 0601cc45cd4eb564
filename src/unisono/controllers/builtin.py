"""The controllers that a control plane of one machine needs and that every cluster has already.

They must never run on a cluster: kube-controller-manager does the same work there, on the same objects.
"""

from __future__ import annotations

import random

from unisono.controllers.autoscaling.autoscaler import AutoscalerController
from unisono.controllers.autoscaling.reading import Triggers
from unisono.controllers.autoscaling.scaled_object import ScaledObjectController
from unisono.controllers.autoscaling.serving import ServingController
from unisono.controllers.claims.pods import ClaimUserController, DeviceTaintController, PodClaimController
from unisono.controllers.cronjob.controller import CronJobController
from unisono.controllers.cronjob.decide import KUBERNETES
from unisono.controllers.metrics import MetricReader, NoMetrics
from unisono.controllers.nodes import NodeLifecycleController
from unisono.controllers.recorder import Recorder
from unisono.controllers.volumes.binder import (
    ClaimController,
    ClaimProtectionController,
    EphemeralVolumeController,
    VolumeController,
    VolumeProtectionController,
)
from unisono.controllers.workloads.daemon_set import DaemonSetController
from unisono.controllers.workloads.deployment import (
    DeploymentController,
    ReplicaSetController,
    ReplicationControllerController,
)
from unisono.controllers.workloads.job import BatchJobController
from unisono.controllers.workloads.stateful_set import StatefulSetController
from unisono.kube.controller import Controller


def builtin_controllers(
    recorder: Recorder,
    metrics: MetricReader | None = None,
    *,
    runs_pods: bool = True,
    source: random.Random | None = None,
) -> list[Controller]:
    """One instance of each, to be run by ``kube.controller.Manager`` beside ``registry.all_controllers``.

    Args:
        recorder: records events.
        metrics: asks for the metrics of autoscalers; without it they have none.
        source: of the random parts of pods' names.
        runs_pods: False on a hub, whose members make the pods of workloads.
    """
    triggers = Triggers(metrics or NoMetrics())
    workloads: list[Controller] = [
        DeploymentController(recorder),
        ReplicaSetController(recorder, source),
        ReplicationControllerController(recorder, source),
        StatefulSetController(recorder),
        DaemonSetController(recorder, source),
        BatchJobController(recorder, source),
    ]
    return [
        *(workloads if runs_pods else ()),
        CronJobController(recorder, KUBERNETES),
        NodeLifecycleController(recorder),
        ClaimController(recorder),
        VolumeController(recorder),
        ClaimProtectionController(),
        VolumeProtectionController(),
        EphemeralVolumeController(recorder),
        PodClaimController(recorder),
        ClaimUserController(),
        DeviceTaintController(recorder),
        AutoscalerController(recorder, triggers),
        ScaledObjectController(recorder, triggers),
        ServingController(recorder),
    ]
