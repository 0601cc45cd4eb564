"""Plug-in ``ray``: one pod is the head of a Ray cluster, the workers join it, and a Service leads to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unisono.api.base import ObjectMeta
from unisono.api.core import Container, Pod, Service, ServicePort, ServiceSpec
from unisono.api.keys import JOB_NAME, JOB_NAMESPACE, TASK_SPEC
from unisono.api.kinds import JOBS, SERVICES
from unisono.controllers.job.plugins.base import JobPlugin, PluginError, flag_port, read_flags
from unisono.controllers.job.plugins.frameworks import open_port
from unisono.controllers.job.view import TaskView
from unisono.controllers.owners import owned_by
from unisono.controllers.plan import Resource

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


class RayPlugin(JobPlugin):
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
        flags = read_flags(arguments, _FLAGS)
        flags["clientPort"] = flags["clientServerPort"] or flags["clientPort"]
        self.head, self.worker = flags["head"], flags["worker"]
        self.head_container, self.worker_container = flags["headContainer"], flags["workerContainer"]
        self.ports = {
            "gcs": flag_port(self.name, flags, "port"),
            "dashboard": flag_port(self.name, flags, "dashboardPort"),
            "client-server": flag_port(self.name, flags, "clientPort"),
        }
        if self.view.task(self.head) is None:
            raise PluginError(f"job {self.view.name} doesn't have head task {self.head}; name it with --head=<task>.")

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
