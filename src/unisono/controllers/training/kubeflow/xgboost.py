"""XGBoostJob: the variables of the Rabit tracker and of LightGBM."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.core import Pod
from unisono.api.kind_families import XGBOOST_JOBS
from unisono.controllers.training.kubeflow.framework import (
    Framework,
    Judgement,
    Tallies,
    append_env,
    judge_by_exit_code,
)
from unisono.controllers.training.kubeflow.view import Role, TrainingView


class XGBoost(Framework):
    """Jobs of a master and its workers."""

    kind = XGBOOST_JOBS
    operator = "xgboostjob-controller"

    def prepare(self, view: TrainingView, role: Role, index: int, pod: Pod) -> None:
        """Environment of every container."""
        append_env(pod.spec.containers or (), self.environment(view, role, index))

    def environment(self, view: TrainingView, role: Role, index: int) -> Iterator[tuple[str, str]]:
        """Variables in the order in which they are appended."""
        master, worker = view.role("Master"), view.role("Worker")
        masters = master.replicas if master is not None else 0
        yield "MASTER_PORT", str(view.port(master))
        yield "MASTER_ADDR", f"{view.name}-master-0"
        yield "WORLD_SIZE", str(view.total)
        yield "RANK", str(index if role.name == "Master" else index + masters)
        yield "PYTHONUNBUFFERED", "1"
        if view.total > 1:
            yield "WORKER_PORT", str(view.port(worker))
            yield "WORKER_ADDRS", view.once("workers", lambda: _workers(view))

    def judge(self, view: TrainingView, tallies: Tallies) -> Judgement:
        """The master decides; a failed pod fails the job unless its exit code is to be looked at."""
        told = Judgement()
        master = tallies.get("Master")
        if master is not None:
            if master.active:
                told.running = f"{view.kind} {view.name} is running."
            if master.expected <= 0:
                told.succeeded = f"{view.kind} {view.name} is successfully completed."
                return told
        return judge_by_exit_code(view, tallies, told)


def _workers(view: TrainingView) -> str:
    return ",".join(f"{view.name}-worker-{i}" for i in range(view.total - 1))
