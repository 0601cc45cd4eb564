"""The controller of TrainJobs."""

from __future__ import annotations

from unisono.api.groups.trainer import TrainingRuntimeSpec, TrainJob
from unisono.api.kind_families import CLUSTER_TRAINING_RUNTIMES, JOB_SETS, TRAIN_JOBS, TRAINING_RUNTIMES
from unisono.controllers.training.controller import Seen, TrainingController
from unisono.controllers.training.plan import Plan
from unisono.controllers.training.trainjob.decide import decide as decide_train_job
from unisono.controllers.training.trainjob.runtimes import built_in_runtimes
from unisono.errors import AlreadyExists, NotFound
from unisono.kube.controller import Context


class TrainJobController(TrainingController[TrainJob]):
    """Makes JobSets of TrainJobs, and the runtimes that come with the control plane."""

    name = "trainjob-controller"
    kind = TRAIN_JOBS

    def setup(self, context: Context) -> None:
        """Watch runtimes and JobSets, too."""
        super().setup(context)
        self._job_sets = context.watch(JOB_SETS, self._owner_keys, optional=True)
        self._runtimes = context.informers.of(TRAINING_RUNTIMES, optional=True)
        self._cluster_runtimes = context.informers.of(CLUSTER_TRAINING_RUNTIMES, optional=True)

    async def start(self) -> None:
        """Make the built-in runtimes; those of the same name stay as they are."""
        for runtime in built_in_runtimes():
            if self._cluster_runtimes.get(runtime.metadata.name) is not None:
                continue
            try:
                await self._client.create(CLUSTER_TRAINING_RUNTIMES, runtime)
            except AlreadyExists:
                continue
            except NotFound:
                # This server does not have the kind.
                return

    def decide(self, seen: Seen[TrainJob], now: float) -> Plan:
        """The next step for the job."""
        job = seen.job
        return decide_train_job(job, self._runtime(job), self._job_sets.get(job.key), now)

    def _runtime(self, job: TrainJob) -> TrainingRuntimeSpec | None:
        reference = job.spec.runtime_ref
        if reference.kind == TRAINING_RUNTIMES.kind:
            own = self._runtimes.get(f"{job.metadata.namespace}/{reference.name}")
            return own.spec if own is not None else None
        shared = self._cluster_runtimes.get(reference.name)
        return shared.spec if shared is not None else None
