"""Plug-in ``pytorch``: the environment from which ``torch.distributed`` forms its group."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.api.core import Container, EnvVar, Pod
from unisono.controllers.job.plugins.arguments import flag_bool, flag_port, flag_seconds, read_flags
from unisono.controllers.job.plugins.base import JobPlugin, containers, set_env
from unisono.controllers.job.plugins.roles import open_port, tasks_named
from unisono.controllers.job.view import TaskView

PORT_NAME = "pytorchjob-port"
INIT_NAME = "wait-for-master"
_FLAGS = {
    "master": "master",
    "worker": "worker",
    "port": "23456",
    "wait-master-enabled": "false",
    "wait-master-timeout": "300",
    "wait-master-image": "busybox:1.36.1",
}
_POLL_SECONDS = 2


class PytorchPlugin(JobPlugin):
    """Sets MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK, and opens the master's port.

    Arguments: ``--master`` and ``--worker`` (task names), ``--port`` (23456), ``--wait-master-enabled`` (false) with
    ``--wait-master-timeout`` (300, seconds) and ``--wait-master-image``: workers wait until the master listens.
    """

    name = "pytorch"
    needs = ("svc",)
    flags = _FLAGS

    def read(self, arguments: Sequence[str]) -> None:
        """Take the flags."""
        flags = read_flags(arguments, _FLAGS)
        self.master, self.worker = flags["master"], flags["worker"]
        self.port = flag_port(self.name, flags, "port")
        self.wait = flag_bool(self.name, flags, "wait-master-enabled")
        self.wait_seconds = flag_seconds(self.name, flags, "wait-master-timeout")
        self.wait_image = flags["wait-master-image"]

    def prepare(self, pod: Pod, task: TaskView, index: int) -> None:
        """Complete the containers; a job without the master task is left as it is."""
        master = self.view.task(self.master)
        if master is None:
            return
        address = master.host(0)
        rank = self._rank(task, index)
        for container in containers(pod, init=False):
            open_port(container, PORT_NAME, self.port)
            set_env(container, EnvVar(name="MASTER_ADDR", value=address))
            set_env(container, EnvVar(name="MASTER_PORT", value=str(self.port)))
            set_env(container, EnvVar(name="WORLD_SIZE", value=str(self._world_size())))
            if rank is not None:
                set_env(container, EnvVar(name="RANK", value=str(rank)))
        if self.wait and task.name == self.worker:
            pod.spec.init_containers = [*(pod.spec.init_containers or ()), self._waiter(address)]

    def _rank(self, task: TaskView, index: int) -> int | None:
        if task.name == self.master:
            return 0
        return index + 1 if task.name == self.worker else None

    def _world_size(self) -> int:
        return sum(task.replicas for task in tasks_named(self.view, (self.master, self.worker)))

    def _waiter(self, address: str) -> Container:
        script = (
            f"end=$(( $(date +%s) + {self.wait_seconds} )); "
            f"until nc -z -w 1 {address} {self.port} 2>/dev/null "
            f"|| (exec 3<>/dev/tcp/{address}/{self.port}) 2>/dev/null "
            f'|| python3 -c "import socket; socket.create_connection(({address!r}, {self.port}), 1)" 2>/dev/null; do '
            f'[ "$(date +%s)" -lt "$end" ] || {{ echo "no master at {address}:{self.port}"; exit 1; }}; '
            f"sleep {_POLL_SECONDS}; done"
        )
        return Container(name=INIT_NAME, image=self.wait_image, command=["sh", "-c", script])
