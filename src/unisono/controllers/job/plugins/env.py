"""Plug-in ``env``: each pod learns its number within its task."""

from __future__ import annotations

from unisono.api.core import EnvVar, Pod
from unisono.controllers.job.plugins.base import JobPlugin, containers, set_env
from unisono.controllers.job.view import TaskView

# The first is Volcano's older name of the same value.
VARIABLES = ("VK_TASK_INDEX", "VC_TASK_INDEX")


class EnvPlugin(JobPlugin):
    """Sets ``VC_TASK_INDEX`` and ``VK_TASK_INDEX``; no arguments."""

    name = "env"

    def prepare(self, pod: Pod, task: TaskView, index: int) -> None:
        """Set the variables in all containers and init containers."""
        for container in containers(pod):
            for variable in VARIABLES:
                set_env(container, EnvVar(name=variable, value=str(index)))
