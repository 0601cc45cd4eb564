"""Plug-in ``mpi``: the master learns its workers, and all pods listen where ``mpirun`` logs in."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.api.core import EnvVar, Pod
from unisono.controllers.job.plugins.arguments import flag_port, read_flags
from unisono.controllers.job.plugins.base import JobPlugin, containers, set_env
from unisono.controllers.job.plugins.roles import open_port
from unisono.controllers.job.view import TaskView

VARIABLE = "MPI_HOST"
PORT_NAME = "mpijob-port"
_FLAGS = {"master": "master", "worker": "worker", "port": "22"}


class MpiPlugin(JobPlugin):
    """Sets MPI_HOST, the workers' hosts joined by commas, in the master's containers and init containers.

    Arguments: ``--master`` and ``--worker`` (task names), ``--port`` (22): where sshd listens.
    """

    name = "mpi"
    needs = ("svc", "ssh")
    flags = _FLAGS

    def read(self, arguments: Sequence[str]) -> None:
        """Take the flags."""
        flags = read_flags(arguments, _FLAGS)
        self.master, self.worker = flags["master"], flags["worker"]
        self.port = flag_port(self.name, flags, "port")

    def prepare(self, pod: Pod, task: TaskView, index: int) -> None:
        """Open the port everywhere; tell the master who works for it, if anybody does."""
        workers = self.view.task(self.worker)
        for container in containers(pod):
            open_port(container, PORT_NAME, self.port)
            if task.name == self.master and workers is not None:
                set_env(container, EnvVar(name=VARIABLE, value=",".join(workers.hosts())))
