"""Controllers of the training jobs of ``kubeflow.org``: one class, one instance per kind."""

from __future__ import annotations

import asyncio

from unisono.api.groups.kubeflow import AnyTrainingJob
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS
from unisono.controllers.execution import Offload
from unisono.controllers.recorder import Recorder
from unisono.controllers.training.controller import Seen, TrainingController
from unisono.controllers.training.kubeflow.decide import decide as decide_kubeflow
from unisono.controllers.training.kubeflow.framework import Framework
from unisono.controllers.training.kubeflow.jax import Jax
from unisono.controllers.training.kubeflow.mpi import Mpi
from unisono.controllers.training.kubeflow.paddle import Paddle
from unisono.controllers.training.kubeflow.pytorch import PyTorch
from unisono.controllers.training.kubeflow.tensorflow import TensorFlow
from unisono.controllers.training.kubeflow.xgboost import XGBoost
from unisono.controllers.training.plan import Plan
from unisono.kube.controller import Context

FRAMEWORKS: tuple[type[Framework], ...] = (PyTorch, TensorFlow, Mpi, XGBoost, Paddle, Jax)


class KubeflowController(TrainingController[AnyTrainingJob]):
    """Runs the jobs of one kind."""

    def __init__(self, framework: Framework, recorder: Recorder, offload: Offload = asyncio.to_thread) -> None:
        """``framework`` says what is the kind's own."""
        super().__init__(recorder, offload)
        self.framework, self.kind = framework, framework.kind
        self.name, self.with_services = framework.operator, framework.pod_services

    def setup(self, context: Context) -> None:
        """Watch autoscalers, too, for kinds that may have one."""
        super().setup(context)
        if self.framework.autoscales:
            self._autoscalers = context.watch(HORIZONTAL_POD_AUTOSCALERS, self._owner_keys, optional=True)

    def decide(self, seen: Seen[AnyTrainingJob], now: float) -> Plan:
        """The next step for the job."""
        if self.framework.autoscales:
            seen.autoscaler = self._autoscalers.get(seen.job.key)
        return decide_kubeflow(seen, self.framework, now)
