"""What one pod holds of the machine: its record on disk, cards, cgroup, network and name."""

from __future__ import annotations

from pathlib import Path

import structlog

from unisono.agent.colocation.machine import treat, treatment
from unisono.agent.host import Host
from unisono.agent.layout import PodDir, PodRecord, RunDir
from unisono.agent.machine.cgroups import Limits
from unisono.agent.network import pod_network
from unisono.api.core import Container, Pod
from unisono.api.pod_states import limits_of, may_burst

# Memory of one shim and its init process.
_SHIM_BYTES = 32 << 20
# Processes and threads of one container: a fork bomb ends here, and programs of machines with many processors do not.
_LEAST_PIDS, _PIDS_PER_CPU = 4096, 256
# A user's pods together may have as many as that many containers.
_CONTAINERS_OF_USER = 4

_log = structlog.get_logger(__name__)


class PodResources:
    """Taken when a pod begins, taken over when an agent starts again, given back when nothing of the pod runs.

    Args:
        host: what all pods of the node share.
        pod: the pod.
        address: its address.
        directory: its directory.
    """

    def __init__(self, host: Host, pod: Pod, address: str, directory: PodDir) -> None:
        self._host, self._pod, self._address, self._directory = host, pod, address, directory
        self._uid = pod.metadata.uid or ""
        self._released = self._networked = False

    def restore(self, record: PodRecord) -> None:
        """Take over what an earlier agent gave the pod."""
        self._host.devices.restore(self._uid, record.devices, record.claimed)
        self._host.cpus.restore(self._uid, record.cpus)
        cgroups = self._host.isolation.cgroups
        self._networked = cgroups is not None and cgroups.path(self._uid) is not None

    def take(self, start_time: float) -> None:
        """Give the pod its cards and write its record.

        Args:
            start_time: when the node took the pod over, seconds since 1970.

        Raises:
            AgentError: not enough cards or CPUs are free; the record is written nevertheless.
        """
        try:
            self._host.devices.allocate(self._pod)
            self._host.give_cpus(self._pod)
        finally:
            meta = self._pod.metadata
            self._directory.path.mkdir(parents=True, exist_ok=True)
            self._directory.write_record(
                PodRecord(
                    namespace=meta.namespace or "",
                    name=meta.name,
                    uid=self._uid,
                    start_time=start_time,
                    devices=self._host.devices.held.get(self._uid, {}),
                    own_ports=self._host.isolation.own_ports and not self._pod.spec.host_network,
                    cpus=self._host.cpus.recorded(self._uid),
                )
            )

    def release(self) -> bool:
        """Nothing of the pod runs any more: free what others may need; False when that was done before."""
        if self._released:
            return False
        self._released = True
        host = self._host
        host.ledger.release(self._uid)
        host.devices.release(self._uid)
        host.free_cpus(self._uid)
        host.names.remove(self._uid)
        host.ports.remove(self._uid)
        if host.isolation.cgroups is not None:
            host.isolation.cgroups.kill(self._uid)
            host.isolation.cgroups.remove(self._uid)
        host.isolation.limits.remove(self._uid)
        return True

    def make_cgroup(self) -> Path | None:
        """The pod's cgroup, made with its network when the first container starts."""
        host = self._host
        if host.isolation.cgroups is None:
            return None
        if (known := host.isolation.cgroups.path(self._uid)) is not None and self._networked:
            return known
        self._networked = True
        path = host.isolation.cgroups.create(self._uid)
        if path is not None and host.isolation.own_ports and not self._pod.spec.host_network:
            try:
                pod_network.isolate(path, self._address, host.machine.addresses)
            except OSError as error:
                _log.warning("pod.network_shared", pod=self._pod.key, error=str(error))
        return path

    def limit(self, container: Container, run: RunDir) -> tuple[list[Path], list[str]]:
        """Make the groups of a run.

        Returns:
            Directories of cgroups that its first process is to enter, and the limits that the kernel does not enforce.
        """
        groups = self._host.isolation.limits
        limits = container_limits(container, self._host.machine.cpu, burst=may_burst(self._pod))
        places, held = groups.create(self._uid, run_name(container, run), limits)
        treat(groups, self._uid, treatment(self._pod))
        pod = self.make_cgroup()
        if pod is not None and not any(place.is_relative_to(pod) for place in places):
            places.insert(0, pod)
        wanted = {"memory": limits.memory, "cpu": limits.cpu, "pids": limits.pids}
        return places, [name for name, value in wanted.items() if value is not None and name not in held]

    def ran_out_of_memory(self, container: Container, run: RunDir) -> bool:
        """Whether something of a run was killed because the container used more memory than it may."""
        return run.exceeded.exists() or self._host.isolation.limits.oom_kills(self._uid, run_name(container, run)) > 0


def run_name(container: Container, run: RunDir) -> str:
    """Name of a run's cgroups; no container's name has a dot."""
    return f"{container.name}.{run.number}"


def container_limits(container: Container, machine_cpu: int, *, burst: bool = False) -> Limits:
    """What a container may use, its shim included.

    Args:
        container: the container.
        machine_cpu: thousandths of processors that the machine has.
        burst: CPU time that it does not use may be used later.
    """
    cpu, memory = limits_of(container)
    return Limits(
        memory=None if memory is None else memory + _SHIM_BYTES,
        cpu=cpu or None,
        pids=_most_pids(machine_cpu),
        burst=burst,
    )


def processes_of_user(machine_cpu: int) -> int:
    """Processes and threads that one user may have where no cgroup bounds those of a container (RLIMIT_NPROC).

    The kernel counts those of all pods that run as this user.

    Args:
        machine_cpu: thousandths of processors that the machine has.
    """
    return _CONTAINERS_OF_USER * _most_pids(machine_cpu)


def _most_pids(machine_cpu: int) -> int:
    return max(_LEAST_PIDS, machine_cpu * _PIDS_PER_CPU // 1000)
