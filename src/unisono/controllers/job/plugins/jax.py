"""Plug-in ``jax``: the environment from which ``jax.distributed`` forms its group."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.api.core import EnvVar, Pod
from unisono.controllers.job.plugins.arguments import PluginError, flag_port, read_flags
from unisono.controllers.job.plugins.base import JobPlugin, containers, set_env
from unisono.controllers.job.plugins.roles import open_port, rank_of
from unisono.controllers.job.view import TaskView

PORT_NAME = "jaxjob-port"
_FLAGS = {"worker": "worker", "port": "6666"}


class JaxPlugin(JobPlugin):
    """Sets what a JAXJob sets: COORDINATOR_ADDRESS, COORDINATOR_PORT, NUM_PROCESSES and PROCESS_ID.

    JAX_COORDINATOR_ADDRESS, host and port in one, is what JAX itself looks for. The first worker coordinates.
    Arguments: ``--worker`` (task name), ``--port`` (6666).
    """

    name = "jax"
    needs = ("svc",)
    flags = _FLAGS

    def read(self, arguments: Sequence[str]) -> None:
        """Take the flags; a job without the task is refused, for no process could find its group."""
        flags = read_flags(arguments, _FLAGS)
        self.worker = flags["worker"]
        self.port = flag_port(self.name, flags, "port")
        if self.view.task(self.worker) is None:
            raise PluginError(f"plug-in jax: the job has no task {self.worker!r}; name it with --worker=<task>.")

    def prepare(self, pod: Pod, task: TaskView, index: int) -> None:
        """Complete the workers' containers; pods of other tasks take no part."""
        rank = rank_of(self.view, [self.worker], task, index)
        if rank is None:
            return
        coordinator = task.host(0)
        values = {
            "COORDINATOR_ADDRESS": coordinator,
            "COORDINATOR_PORT": str(self.port),
            "JAX_COORDINATOR_ADDRESS": f"{coordinator}:{self.port}",
            "NUM_PROCESSES": str(task.replicas),
            "PROCESS_ID": str(rank),
        }
        for container in containers(pod, init=False):
            open_port(container, PORT_NAME, self.port)
            for name, value in values.items():
                set_env(container, EnvVar(name=name, value=value))
