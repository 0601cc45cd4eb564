"""All containers of one pod on this node: starts and stops them, and says to the pod's events what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable

from unisono.agent.containers.container import PodContainer
from unisono.agent.environment.variables import MissingSource
from unisono.agent.host import Host
from unisono.agent.layout import PodDir
from unisono.agent.lifecycle import ContainerView, Reason, Role, backoff
from unisono.agent.pods.preparation import prepare
from unisono.agent.pods.resources import PodResources, processes_of_user
from unisono.api.colocation import limits_of
from unisono.api.core import Container, Pod
from unisono.errors import ApiError

_RETRY_SECONDS = 2.0
PYTHON_NOT_READABLE = "PythonNotReadable"
_NOT_ENFORCED = {
    "memory": "memory is looked at once a second, and the container is killed when it uses more",
    "cpu": "it may use as much CPU as there is",
    "pids": "it may start as many processes as the kernel has room for, because it runs as root",
}


class PodContainers:
    """The containers in the order of the manifest, init containers first.

    Args:
        host: what all pods of the node share.
        pod: the pod as it was bound; its containers never change.
        address: its address.
        directory: its directory.
        resources: what it holds of the machine.
        changed: called after every change of a container.
    """

    def __init__(
        self,
        host: Host,
        pod: Pod,
        address: str,
        directory: PodDir,
        resources: PodResources,
        *,
        changed: Callable[[], None],
    ) -> None:
        self._host, self._address, self._directory, self._resources = host, address, directory, resources
        self._changed, self._pod = changed, pod
        self._stopping: dict[str, float] = {}
        self._warned: set[str] = set()
        self._all = [self._container(spec, _role(spec)) for spec in pod.spec.init_containers or ()]
        self._all += [self._container(spec, "main") for spec in pod.spec.containers or ()]

    @property
    def running(self) -> bool:
        """Whether a shim lives, as far as we know."""
        return any(c.running for c in self._all)

    @property
    def began(self) -> bool:
        """Whether a process was started, by this agent or an earlier one."""
        return any(self._directory.spawned_runs(c.name) for c in self._all)

    def views(self) -> tuple[ContainerView, ...]:
        """What ``lifecycle.decide`` reads."""
        return tuple(c.view() for c in self._all)

    async def recover(self) -> None:
        """Take over what an earlier agent left."""
        for container in self._all:
            await container.recover()

    def not_before(self, when: float) -> None:
        """Start nothing before ``when``, seconds since 1970; 0 forgets earlier delays."""
        for container in self._all:
            container.retry_at, container.failed_starts = when, 0

    async def start(self, pod: Pod, name: str) -> None:
        """Start a container; what it lacks for that is told, and it is tried again later.

        Raises:
            AgentError: it can never run on this machine.
        """
        container = self._named(name)
        self._stopping.pop(name, None)
        # A start that failed for want of something leaves its directory to the next try.
        run = container.prepared or self._directory.new_run(name, container.crashes)
        container.prepared = run
        try:
            groups, missing = self._resources.limit(container.spec, run)
            spec = await prepare(self._host, pod, container.spec, self._directory, run, self._address, groups)
            if "memory" in missing:
                spec["watched_memory"] = limits_of(container.spec)[1]
            if "pids" in missing and (os.geteuid() if spec["uid"] is None else spec["uid"]) != 0:
                spec["processes"] = processes_of_user(self._host.machine.cpu)
                missing.remove("pids")
            self._warn_of_limits(pod, name, missing)
            if spec["own_user"]:
                self._warn_of_python(pod)
            await container.start(run, spec)
        except MissingSource as error:
            self._block(pod, container, "CreateContainerConfigError", str(error))
        except (ApiError, OSError) as error:
            container.failed_starts += 1
            self._block(pod, container, "CreateContainerError", str(error), backoff(container.failed_starts))
        else:
            self._host.recorder.event(pod, "Normal", "Started", f"Started container {name}")

    def _warn_of_limits(self, pod: Pod, name: str, missing: list[str]) -> None:
        """Say once per container which of its limits the kernel does not enforce."""
        if missing and name not in self._warned:
            self._warned.add(name)
            what = "; ".join(_NOT_ENFORCED[each] for each in missing)
            message = f"The kernel of this node enforces not all limits of container {name}: {what}."
            self._host.recorder.event(pod, "Warning", "LimitNotEnforced", message)

    def _warn_of_python(self, pod: Pod) -> None:
        """Say once per pod that the Python of this machine is not for it."""
        if (problem := self._host.users.problem) and PYTHON_NOT_READABLE not in self._warned:
            self._warned.add(PYTHON_NOT_READABLE)
            self._host.recorder.event(pod, "Warning", PYTHON_NOT_READABLE, problem)

    def _warn_of_health(self, why: Reason) -> None:
        self._host.recorder.event(self._pod, "Warning", why.reason, why.message)

    def stop(self, pod: Pod, name: str, why: str, grace: float) -> None:
        """Ask a container to end within ``grace`` seconds, once, or again when less time is left than before."""
        if self._stopping.get(name, float("inf")) <= grace:
            return
        if name not in self._stopping:
            self._host.recorder.event(pod, "Normal", "Killing", f"Stopping container {name}: {why}")
        self._stopping[name] = grace
        self._named(name).stop(grace)

    def stop_all(self, pod: Pod, why: str, grace: float) -> None:
        """Ask everything that runs to end."""
        for container in self._all:
            if container.running:
                self.stop(pod, container.name, why, grace)

    def warn_of_taken_port(self, pod: Pod) -> None:
        """Say what to do when a container failed because another process has its port."""
        field = "hostPort" if self._host.isolation.own_ports else "containerPort"
        for container in self._all:
            if container.port_was_taken():
                self._host.recorder.event(
                    pod,
                    "Warning",
                    "PortInUse",
                    f"Container {container.name} found its port taken by another process of this machine: give the "
                    f"port as {field}, so that jobs which need it run one after the other, or choose another.",
                )

    def close(self) -> None:
        """Stop watching; processes go on."""
        for container in self._all:
            container.close()

    def _block(self, pod: Pod, container: PodContainer, reason: str, message: str, delay: float = 0.0) -> None:
        if container.blocked is None or container.blocked.message != message:
            self._host.recorder.event(pod, "Warning", "Failed", f"Error: {message}")
        container.blocked = Reason(reason, message)
        container.retry_at = self._host.clock.time() + max(_RETRY_SECONDS, delay)

    def _container(self, spec: Container, role: Role) -> PodContainer:
        return PodContainer(
            spec,
            role,
            self._directory,
            address=self._address,
            clock=self._host.clock,
            changed=self._changed,
            unhealthy=self._warn_of_health,
            spawner=self._host.spawner,
            out_of_memory=self._resources.ran_out_of_memory,
            memory=self._host.memory,
        )

    def _named(self, name: str) -> PodContainer:
        return next(c for c in self._all if c.name == name)


def _role(container: Container) -> Role:
    """An init container that is restarted always is a sidecar."""
    return "sidecar" if container.restart_policy == "Always" else "init"
