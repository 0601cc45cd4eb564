"""Plug-in ``tensorflow``: the environment variable from which TensorFlow learns its cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from unisono.api.core import EnvVar, Pod
from unisono.controllers.job.plugins.arguments import flag_port, read_flags
from unisono.controllers.job.plugins.base import JobPlugin, containers, set_env
from unisono.controllers.job.view import TaskView

VARIABLE = "TF_CONFIG"
ROLES = ("ps", "worker", "chief", "evaluator")
_FLAGS = {"ps": "ps", "worker": "worker", "chief": "chief", "evaluator": "evaluator", "port": "2222"}


class TensorflowPlugin(JobPlugin):
    """Sets TF_CONFIG in the containers of every pod; a job of a single pod needs none and gets none.

    Arguments: ``--ps``, ``--worker``, ``--chief``, ``--evaluator`` (names of the tasks with these roles), ``--port``
    (2222).
    """

    name = "tensorflow"
    needs = ("svc",)
    flags = _FLAGS

    def read(self, arguments: Sequence[str]) -> None:
        """Take the flags."""
        flags = read_flags(arguments, _FLAGS)
        self.tasks = {role: flags[role] for role in ROLES}
        self.port = flag_port(self.name, flags, "port")

    def prepare(self, pod: Pod, task: TaskView, index: int) -> None:
        """Set the variable; init containers do not train and go without."""
        if len(self.view.tasks) == 1 and self.view.total == 1:
            return
        text = json.dumps(self._config(task, index), separators=(",", ":"))
        for container in containers(pod, init=False):
            set_env(container, EnvVar(name=VARIABLE, value=text))

    def _config(self, task: TaskView, index: int) -> dict[str, Any]:
        cluster: dict[str, list[str]] = {}
        for role, name in self.tasks.items():
            found = self.view.task(name)
            if found is not None and found.replicas:
                cluster[role] = [f"{found.host(number)}:{self.port}" for number in range(found.replicas)]
        kind = next((role for role, name in self.tasks.items() if name == task.name), task.name)
        return {"cluster": cluster, "task": {"type": kind, "index": index}}
