"""PaddleJob: the variables of ``paddle.distributed.launch``."""

from __future__ import annotations

from unisono.api.core import EnvVar, EnvVarSource, ObjectFieldSelector, Pod
from unisono.api.kind_families import PADDLE_JOBS
from unisono.controllers.training.kubeflow.framework import Framework, Judgement, Tallies, leader
from unisono.controllers.training.kubeflow.pytorch import judge_led
from unisono.controllers.training.kubeflow.view import Role, TrainingView


class Paddle(Framework):
    """Jobs of workers (collective mode), or of servers and trainers (a job with a master)."""

    kind = PADDLE_JOBS
    operator = "paddlejob-controller"
    selector = True

    def prepare(self, view: TrainingView, role: Role, index: int, pod: Pod) -> None:
        """Environment of every container."""
        added = self.environment(view, role, index)
        for container in pod.spec.containers or ():
            container.env = [*(container.env or ()), *added]

    def environment(self, view: TrainingView, role: Role, index: int) -> list[EnvVar]:
        """Variables in the order in which they are appended."""
        master = leader(view, "Master")
        meeting = master or view.role("Worker") or role
        port = view.port(meeting)
        variables = [
            EnvVar(name="PYTHONUNBUFFERED", value="1"),
            EnvVar(name="PADDLE_JOB_ID", value=view.name),
            EnvVar(name="PADDLE_NNODES", value=str(view.total)),
        ]
        if role.name == meeting.name and index == 0:
            # The pod that the others meet knows itself by address: its own Service may not lead to it yet.
            own = EnvVarSource(field_ref=ObjectFieldSelector(field_path="status.podIP"))
            variables.append(EnvVar(name="POD_IP_DUMMY", value_from=own))
            variables.append(EnvVar(name="PADDLE_MASTER", value=f"$(POD_IP_DUMMY):{port}"))
        else:
            variables.append(EnvVar(name="PADDLE_MASTER", value=f"{self.pod_name(view, meeting, 0)}:{port}"))
        if master is not None:
            name = "PADDLE_SERVER_NUM" if role.name == "Master" else "PADDLE_TRAINER_NUM"
            variables.append(EnvVar(name=name, value="1"))
        return variables

    def judge(self, view: TrainingView, tallies: Tallies) -> Judgement:
        """The master decides; without one, all workers."""
        return judge_led(view, tallies)
