"""TFJob: TF_CONFIG, and the rules of chief, workers and parameter servers."""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.core import Pod
from unisono.api.groups.kubeflow import TFJobSpec
from unisono.api.kind_families import TF_JOBS
from unisono.controllers.training.kubeflow.framework import Framework, Judgement, Tallies, append_env, leader
from unisono.controllers.training.kubeflow.tally import Tally
from unisono.controllers.training.kubeflow.view import NEVER, RESTARTING, Role, TrainingView

ALL_WORKERS = "AllWorkers"


class TensorFlow(Framework):
    """Jobs whose processes read TF_CONFIG."""

    kind = TF_JOBS
    operator = "tfjob-controller"

    def is_master(self, view: TrainingView, role: Role, index: int) -> bool:
        """Chief or master; worker 0 of a job without them."""
        if role.name in ("Chief", "Master"):
            return True
        return role.name == "Worker" and index == 0 and leader(view, "Chief", "Master") is None

    def prepare(self, view: TrainingView, role: Role, index: int, pod: Pod) -> None:
        """TF_CONFIG for the container that trains, unless the job is a single process."""
        if view.total == 1:
            return
        config = self.sparse(view, role, index) if _spec(view).enable_dynamic_worker else self.whole(view, role, index)
        containers = pod.spec.containers or []
        named = [each for each in containers if each.name == view.facts.container] or containers[:1]
        append_env(named, [("TF_CONFIG", msgspec.json.encode(config).decode())])

    def whole(self, view: TrainingView, role: Role, index: int) -> dict[str, Any]:
        """TF_CONFIG with all hosts."""
        return {
            "cluster": {
                each.lower: self._addresses(view, each) for each in sorted(view.roles, key=lambda role: role.lower)
            },
            "task": {"type": role.lower, "index": index},
            "environment": "cloud",
        }

    def sparse(self, view: TrainingView, role: Role, index: int) -> dict[str, Any]:
        """TF_CONFIG of workers that come and go: each knows itself and the parameter servers."""
        servers = view.role("PS")
        workers: dict[str, str] = {}
        ps: list[str] | msgspec.Raw = []
        if role.name == "Worker":
            workers = {str(index): self.address(view, role, index)}
            ps = self._addresses(view, servers) if servers is not None else []
        elif role.name == "PS":
            ps = [self.address(view, role, index)]
        return {"cluster": {"worker": workers, "ps": ps}, "task": {"type": role.lower, "index": index}}

    def _addresses(self, view: TrainingView, role: Role) -> msgspec.Raw:
        """Hosts and ports of the role's pods, as JSON."""
        text = view.once(
            role.name,
            lambda: msgspec.json.encode([self.address(view, role, i) for i in range(role.replicas)]).decode(),
        )
        return msgspec.Raw(text.encode())

    def address(self, view: TrainingView, role: Role, index: int) -> str:
        """Host and port of a pod."""
        return f"{self.pod_name(view, role, index)}.{view.namespace}.svc:{view.port(role)}"

    def judge(self, view: TrainingView, tallies: Tallies) -> Judgement:
        """The chief decides; without one, worker 0 or all workers."""
        told, full = Judgement(), f"{view.namespace}/{view.name}"
        chief = leader(view, "Chief", "Master")
        counts = tallies[chief.name] if chief is not None else tallies.get("Worker", Tally(0))
        if counts.active:
            told.running = f"{view.kind} {full} is running."
        done = counts.replicas > 0 and counts.expected <= 0
        if chief is None and not done and _spec(view).success_policy != ALL_WORKERS:
            first = counts.pods.get(0)
            done = first is not None and first.phase == "Succeeded"
        if done:
            told.succeeded = f"{view.kind} {full} successfully completed."
            return told
        for role in view.roles:
            tally = tallies[role.name]
            dynamic = role.name == "Worker" and _spec(view).enable_dynamic_worker
            if tally.crashed and role.restart_policy == NEVER and not dynamic and not view.holds(RESTARTING):
                told.failed = f"{view.kind} {full} has failed because {tally.crashed} {role.name} replica(s) failed."
                break
        return told


def _spec(view: TrainingView) -> TFJobSpec:
    spec = view.job.spec
    assert isinstance(spec, TFJobSpec)
    return spec
