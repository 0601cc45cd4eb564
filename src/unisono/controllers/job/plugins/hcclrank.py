"""Plug-in ``hcclrank``: the rank annotation from which Ascend's HCCL tables are made."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.api.core import Pod
from unisono.controllers.job.plugins.arguments import read_flags
from unisono.controllers.job.plugins.base import JobPlugin, containers
from unisono.controllers.job.plugins.roles import rank_of
from unisono.controllers.job.view import TaskView

ANNOTATION = "hccl/rankIndex"
_FLAGS = {"master": "master", "worker": "worker"}


class HcclrankPlugin(JobPlugin):
    """Annotates pods with ``hccl/rankIndex``: the template's own value, a RANK variable, or masters before workers.

    It completes pods after all others, so it sees the RANK that they set. Arguments: ``--master``, ``--worker``.
    """

    name = "hcclrank"
    flags = _FLAGS

    def read(self, arguments: Sequence[str]) -> None:
        """Take the flags."""
        flags = read_flags(arguments, _FLAGS)
        self.roles = (flags["master"], flags["worker"])

    def prepare(self, pod: Pod, task: TaskView, index: int) -> None:
        """Annotate the pod; one of another task without RANK stays as it is."""
        annotations = pod.metadata.annotations or {}
        if annotations.get(ANNOTATION):
            return
        rank = _given_rank(pod)
        if rank is None:
            number = rank_of(self.view, self.roles, task, index)
            rank = None if number is None else str(number)
        if rank is not None:
            pod.metadata.annotations = {**annotations, ANNOTATION: rank}


def _given_rank(pod: Pod) -> str | None:
    """The value of RANK in the first container that sets it."""
    given = (env for container in containers(pod, init=False) for env in container.env or ())
    return next((env.value for env in given if env.name == "RANK" and env.value), None)
