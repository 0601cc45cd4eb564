"""JAXJob: the variables of ``jax.distributed.initialize``."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.core import Pod
from unisono.api.kind_families import JAX_JOBS
from unisono.controllers.training.kubeflow.framework import Framework, Judgement, Tallies, append_env
from unisono.controllers.training.kubeflow.pytorch import judge_led
from unisono.controllers.training.kubeflow.view import Role, TrainingView


class Jax(Framework):
    """Jobs of equal processes, of which the first coordinates."""

    kind = JAX_JOBS
    operator = "jaxjob-controller"
    selector = True

    def is_master(self, view: TrainingView, role: Role, index: int) -> bool:
        """The coordinator."""
        return index == 0

    def prepare(self, view: TrainingView, role: Role, index: int, pod: Pod) -> None:
        """Environment of every container."""
        append_env(pod.spec.containers or (), self.environment(view, index))

    def environment(self, view: TrainingView, index: int) -> Iterator[tuple[str, str]]:
        """Variables in the order in which they are appended."""
        yield "PYTHONUNBUFFERED", "1"
        yield "COORDINATOR_PORT", str(view.port(view.role("Worker")))
        yield "COORDINATOR_ADDRESS", f"{view.name}-worker-0"
        yield "NUM_PROCESSES", str(view.total)
        yield "PROCESS_ID", str(index)

    def judge(self, view: TrainingView, tallies: Tallies) -> Judgement:
        """All processes must succeed."""
        return judge_led(view, tallies)
