"""Plug-ins of frameworks: JAX, MPI, PyTorch, TensorFlow, and the ranks of Ascend's HCCL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from unisono.api.base import ObjectMeta
from unisono.api.core import Container, ContainerPort, EnvVar, Pod, Service, ServicePort, ServiceSpec
from unisono.api.keys import JOB_NAME, JOB_NAMESPACE, TASK_SPEC
from unisono.api.kinds import JOBS, SERVICES
from unisono.controllers.job.plugins import base
from unisono.controllers.job.view import JobView, TaskView
from unisono.controllers.owners import owned_by
from unisono.controllers.plan import Resource

# What plug-ins of frameworks share: ports of containers, and what a task is in its framework.


def open_port(container: Container, name: str, number: int) -> None:
    """Declare a TCP port of a container, unless it has that number or that name already."""
    ports = container.ports or []
    if not any(port.container_port == number or port.name == name for port in ports):
        container.ports = [*ports, ContainerPort(name=name, container_port=number, protocol="TCP")]


def tasks_named(view: JobView, names: Sequence[str]) -> list[TaskView]:
    """The tasks of these names that the job has, each once, in the order of the names."""
    tasks = (view.task(name) for name in dict.fromkeys(names))
    return [task for task in tasks if task is not None]


def rank_of(view: JobView, names: Sequence[str], task: TaskView, index: int) -> int | None:
    """Number of a pod when the tasks of these names are counted through; None when its task is not among them."""
    before = 0
    for each in tasks_named(view, names):
        if each.name == task.name:
            return before + index
        before += each.replicas
    return None


# Plug-in ``hcclrank``: the rank annotation from which Ascend's HCCL tables are made.

ANNOTATION = "hccl/rankIndex"
_HCCL_FLAGS = {"master": "master", "worker": "worker"}


class HcclrankPlugin(base.JobPlugin):
    """Annotates pods with ``hccl/rankIndex``: the template's own value, a RANK variable, or masters before workers.

    It completes pods after all others, so it sees the RANK that they set. Arguments: ``--master``, ``--worker``.
    """

    name = "hcclrank"
    flags = _HCCL_FLAGS

    def read(self, arguments: Sequence[str]) -> None:
        """Take the flags."""
        flags = base.read_flags(arguments, _HCCL_FLAGS)
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
    given = (env for container in base.containers(pod, init=False) for env in container.env or ())
    return next((env.value for env in given if env.name == "RANK" and env.value), None)


# Plug-in ``jax``: the environment from which ``jax.distributed`` forms its group.

JAX_PORT_NAME = "jaxjob-port"
_JAX_FLAGS = {"worker": "worker", "port": "6666"}


class JaxPlugin(base.JobPlugin):
    """Sets what a JAXJob sets: COORDINATOR_ADDRESS, COORDINATOR_PORT, NUM_PROCESSES and PROCESS_ID.

    JAX_COORDINATOR_ADDRESS, host and port in one, is what JAX itself looks for. The first worker coordinates.
    Arguments: ``--worker`` (task name), ``--port`` (6666).
    """

    name = "jax"
    needs = ("svc",)
    flags = _JAX_FLAGS

    def read(self, arguments: Sequence[str]) -> None:
        """Take the flags; a job without the task is refused, for no process could find its group."""
        flags = base.read_flags(arguments, _JAX_FLAGS)
        self.worker = flags["worker"]
        self.port = base.flag_port(self.name, flags, "port")
        if self.view.task(self.worker) is None:
            raise base.PluginError(f"plug-in jax: the job has no task {self.worker!r}; name it with --worker=<task>.")

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
        for container in base.containers(pod, init=False):
            open_port(container, JAX_PORT_NAME, self.port)
            for name, value in values.items():
                base.set_env(container, EnvVar(name=name, value=value))


# Plug-in ``mpi``: the master learns its workers, and all pods listen where ``mpirun`` logs in.

MPI_VARIABLE = "MPI_HOST"
MPI_PORT_NAME = "mpijob-port"
_MPI_FLAGS = {"master": "master", "worker": "worker", "port": "22"}


class MpiPlugin(base.JobPlugin):
    """Sets MPI_HOST, the workers' hosts joined by commas, in the master's containers and init containers.

    Arguments: ``--master`` and ``--worker`` (task names), ``--port`` (22): where sshd listens.
    """

    name = "mpi"
    needs = ("svc", "ssh")
    flags = _MPI_FLAGS

    def read(self, arguments: Sequence[str]) -> None:
        """Take the flags."""
        flags = base.read_flags(arguments, _MPI_FLAGS)
        self.master, self.worker = flags["master"], flags["worker"]
        self.port = base.flag_port(self.name, flags, "port")

    def prepare(self, pod: Pod, task: TaskView, index: int) -> None:
        """Open the port everywhere; tell the master who works for it, if anybody does."""
        workers = self.view.task(self.worker)
        for container in base.containers(pod):
            open_port(container, MPI_PORT_NAME, self.port)
            if task.name == self.master and workers is not None:
                base.set_env(container, EnvVar(name=MPI_VARIABLE, value=",".join(workers.hosts())))


# Plug-in ``pytorch``: the environment from which ``torch.distributed`` forms its group.

PYTORCH_PORT_NAME = "pytorchjob-port"
INIT_NAME = "wait-for-master"
_PYTORCH_FLAGS = {
    "master": "master",
    "worker": "worker",
    "port": "23456",
    "wait-master-enabled": "false",
    "wait-master-timeout": "300",
    "wait-master-image": "busybox:1.36.1",
}
_POLL_SECONDS = 2


class PytorchPlugin(base.JobPlugin):
    """Sets MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK, and opens the master's port.

    Arguments: ``--master`` and ``--worker`` (task names), ``--port`` (23456), ``--wait-master-enabled`` (false) with
    ``--wait-master-timeout`` (300, seconds) and ``--wait-master-image``: workers wait until the master listens.
    """

    name = "pytorch"
    needs = ("svc",)
    flags = _PYTORCH_FLAGS

    def read(self, arguments: Sequence[str]) -> None:
        """Take the flags."""
        flags = base.read_flags(arguments, _PYTORCH_FLAGS)
        self.master, self.worker = flags["master"], flags["worker"]
        self.port = base.flag_port(self.name, flags, "port")
        self.wait = base.flag_bool(self.name, flags, "wait-master-enabled")
        self.wait_seconds = base.flag_seconds(self.name, flags, "wait-master-timeout")
        self.wait_image = flags["wait-master-image"]

    def prepare(self, pod: Pod, task: TaskView, index: int) -> None:
        """Complete the containers; a job without the master task is left as it is."""
        master = self.view.task(self.master)
        if master is None:
            return
        address = master.host(0)
        rank = self._rank(task, index)
        for container in base.containers(pod, init=False):
            open_port(container, PYTORCH_PORT_NAME, self.port)
            base.set_env(container, EnvVar(name="MASTER_ADDR", value=address))
            base.set_env(container, EnvVar(name="MASTER_PORT", value=str(self.port)))
            base.set_env(container, EnvVar(name="WORLD_SIZE", value=str(self._world_size())))
            if rank is not None:
                base.set_env(container, EnvVar(name="RANK", value=str(rank)))
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


# Plug-in ``tensorflow``: the environment variable from which TensorFlow learns its cluster.

TENSORFLOW_VARIABLE = "TF_CONFIG"
ROLES = ("ps", "worker", "chief", "evaluator")
_TENSORFLOW_FLAGS = {"ps": "ps", "worker": "worker", "chief": "chief", "evaluator": "evaluator", "port": "2222"}


class TensorflowPlugin(base.JobPlugin):
    """Sets TF_CONFIG in the containers of every pod; a job of a single pod needs none and gets none.

    Arguments: ``--ps``, ``--worker``, ``--chief``, ``--evaluator`` (names of the tasks with these roles), ``--port``
    (2222).
    """

    name = "tensorflow"
    needs = ("svc",)
    flags = _TENSORFLOW_FLAGS

    def read(self, arguments: Sequence[str]) -> None:
        """Take the flags."""
        flags = base.read_flags(arguments, _TENSORFLOW_FLAGS)
        self.tasks = {role: flags[role] for role in ROLES}
        self.port = base.flag_port(self.name, flags, "port")

    def prepare(self, pod: Pod, task: TaskView, index: int) -> None:
        """Set the variable; init containers do not train and go without."""
        if len(self.view.tasks) == 1 and self.view.total == 1:
            return
        text = json.dumps(self._config(task, index), separators=(",", ":"))
        for container in base.containers(pod, init=False):
            base.set_env(container, EnvVar(name=TENSORFLOW_VARIABLE, value=text))

    def _config(self, task: TaskView, index: int) -> dict[str, Any]:
        cluster: dict[str, list[str]] = {}
        for role, name in self.tasks.items():
            of_name = self.view.task(name)
            if of_name is not None and of_name.replicas:
                cluster[role] = [f"{of_name.host(number)}:{self.port}" for number in range(of_name.replicas)]
        kind = next((role for role, name in self.tasks.items() if name == task.name), task.name)
        return {"cluster": cluster, "task": {"type": kind, "index": index}}


# Plug-in ``ray``: one pod is the head of a Ray cluster, the workers join it, and a Service leads to it.

_FLAGS = {
    "head": "head",
    "headContainer": "head",
    "worker": "worker",
    "workerContainer": "worker",
    "port": "6379",
    "dashboardPort": "8265",
    "clientPort": "10001",
    # The name that Ray's own command line and many job files use.
    "clientServerPort": "",
}
_START = "ray start"


class RayPlugin(base.JobPlugin):
    """Starts Ray in the head's and the workers' containers, and makes the Service ``<job>-head-svc``.

    Arguments: ``--head`` and ``--worker`` (task names), ``--headContainer`` and ``--workerContainer``, ``--port``
    (6379), ``--dashboardPort`` (8265), ``--clientPort`` (10001, also ``--clientServerPort``).

    The commands of the two containers are replaced. A head that runs ``ray start`` by itself keeps its command: what
    it runs after that is the user's program.
    """

    name = "ray"
    needs = ("svc",)
    flags = _FLAGS

    def read(self, arguments: Sequence[str]) -> None:
        """Take the flags; a job without the head's task is refused: its workers could join nothing."""
        flags = base.read_flags(arguments, _FLAGS)
        flags["clientPort"] = flags["clientServerPort"] or flags["clientPort"]
        self.head, self.worker = flags["head"], flags["worker"]
        self.head_container, self.worker_container = flags["headContainer"], flags["workerContainer"]
        self.ports = {
            "gcs": base.flag_port(self.name, flags, "port"),
            "dashboard": base.flag_port(self.name, flags, "dashboardPort"),
            "client-server": base.flag_port(self.name, flags, "clientPort"),
        }
        if self.view.task(self.head) is None:
            raise base.PluginError(
                f"job {self.view.name} doesn't have head task {self.head}; name it with --head=<task>."
            )

    @property
    def service_name(self) -> str:
        """``<job>-head-svc``."""
        return f"{self.view.name}-head-svc"

    def prepare(self, pod: Pod, task: TaskView, index: int) -> None:
        """Replace the commands, and open the head's ports."""
        for container in pod.spec.containers or ():
            if task.name == self.head and container.name == self.head_container:
                self._lead(container)
            elif task.name == self.worker and container.name == self.worker_container:
                container.command = ["sh", "-c", self._join_command()]

    def resources(self) -> Iterable[Resource]:
        """The Service of the head."""
        view = self.view
        selector = {JOB_NAME: view.name, JOB_NAMESPACE: view.namespace, TASK_SPEC: self.head}
        # By number: a container may have declared the port under another name.
        ports = [
            ServicePort(name=name, port=number, target_port=number, protocol="TCP")
            for name, number in self.ports.items()
        ]
        meta = ObjectMeta(name=self.service_name, namespace=view.namespace, owner_references=[owned_by(JOBS, view.job)])
        service = Service(metadata=meta, spec=ServiceSpec(ports=ports, selector=selector))
        yield Resource(SERVICES, service, what=f"plug-in {self.name}")

    def _lead(self, container: Container) -> None:
        for name, number in self.ports.items():
            open_port(container, name, number)
        if not any(_START in part for part in (*(container.command or ()), *(container.args or ()))):
            container.command = ["sh", "-c", self._head_command()]

    def _head_command(self) -> str:
        return (
            f"{_START} --head --block --dashboard-host=0.0.0.0 --port={self.ports['gcs']} "
            f"--dashboard-port={self.ports['dashboard']} --ray-client-server-port={self.ports['client-server']}"
        )

    def _join_command(self) -> str:
        head = self.view.task(self.head)
        address = head.host(0) if head is not None else self.service_name
        return f"{_START} --block --address={address}:{self.ports['gcs']}"
