"""All containers of one pod on this node: what each needs before its process starts, their starts and stops."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import structlog

from unisono.agent import environment as env
from unisono.agent.colocation.keeper import treat, treatment
from unisono.agent.containers.container import PodContainer
from unisono.agent.devices.inventory import variables_of
from unisono.agent.devices.nvidia import mps_pipes, mps_variables
from unisono.agent.devices.slices import claimed_cards
from unisono.agent.environment import MissingSource
from unisono.agent.host import Host
from unisono.agent.layout import PodDir, PodRecord, RunDir
from unisono.agent.lifecycle import ContainerView, Reason, Role, backoff
from unisono.agent.machine.cgroups import Limits
from unisono.agent.network import pod_network
from unisono.agent.network.names import hostname_of, peer_of, replace_names
from unisono.agent.processes.frameworks import home_keys, network_variables, ray_mounts, ssh_client_mounts, sshd_mounts
from unisono.agent.processes.launch import (
    TERMINATION_PATH,
    base_environment,
    shim_spec,
    without_mounts,
    working_directories,
)
from unisono.agent.processes.users import HOME, NAME, PYTHON, own_places
from unisono.agent.volumes.mounts import Mount, PodFacts, is_written, mounts_of, prepare_volumes, write_files
from unisono.agent.volumes.provisioner import claim_folders
from unisono.api.core import Container, Pod
from unisono.api.names import dns_label
from unisono.api.pod_states import limits_of, may_burst
from unisono.errors import AgentError, ApiError

# What one pod holds of the machine: its record on disk, cards, cgroup, network and name.

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
        if (existing := host.isolation.cgroups.path(self._uid)) is not None and self._networked:
            return existing
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
        requested = {"memory": limits.memory, "cpu": limits.cpu, "pids": limits.pids}
        return places, [name for name, value in requested.items() if value is not None and name not in held]

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


# Everything a container needs before its process starts: volumes, variables, command, mounts.


def impossible(pod: Pod) -> str | None:
    """Why a pod can never run here, known before anything is started."""
    containers = [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]
    for name in (*(each.name for each in containers), *(each.name for each in pod.spec.volumes or ())):
        # They become names of folders. The API lets no other names pass.
        if dns_label(name):
            return f"{name[:80]!r} is no name for a container or a volume: {dns_label(name)}"
    for container in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ())):
        try:
            env.command_line(container, {})
        except AgentError as error:
            return str(error)
        probes = (container.startup_probe, container.readiness_probe, container.liveness_probe)
        if any(probe is not None and probe.grpc is not None for probe in probes):
            return (
                f"Container {container.name} has a gRPC probe, which this runtime does not have: "
                "use exec, tcpSocket or httpGet."
            )
    return None


async def prepare(host: Host, pod: Pod, container: Container, directory: PodDir, run: RunDir, address: str,
                  cgroups: Sequence[Path]) -> dict[str, Any]:  # fmt: skip
    """Make volumes and hosts file, and say what the shim is to run.

    Raises:
        MissingSource: an object that the pod refers to is not there yet.
        AgentError: the container cannot run on this machine.
        ApiError: the API did not answer.
    """
    uid = pod.metadata.uid or ""
    sources = await host.sources.gather(pod)
    claims = await claim_folders(host.client, host.layout, pod)
    facts = PodFacts(address, host.machine.address, host.allocatable)
    who = host.users.identity(pod, container)
    # Beside the loop: thousands of files take their time. A pod's own worker does one thing after the other.
    owner = host.users.owner(pod)
    places = await asyncio.to_thread(prepare_volumes, pod, directory, claims, sources, facts, owner)
    own = env.container_environment(
        pod, container, sources, pod_ip=address, host_ip=facts.host_ip, allocatable=host.allocatable
    )
    hostname = hostname_of(pod)
    devices = [*host.devices.allocate(pod).get(container.name, []), *await _claimed(host, pod, container, directory)]
    # The folder that the agent makes is its own alone.
    ours = host.python_folder.is_relative_to(host.layout.root)
    python = PYTHON.parent if who.own and ours else host.python_folder
    variables = {
        **base_environment(os.environ, hostname, python, (NAME, HOME) if who.own else None),
        **network_variables(host.isolation.own_ports),
        **variables_of(host.machine.inventories, devices),
        **mps_variables(devices, host.machine.gpus, host.machine.shares, mps_pipes(host.layout.root)),
        **own,
    }
    argv = env.command_line(container, own)
    by_name = {v.name: v for v in pod.spec.volumes or ()}
    alone = len(pod.spec.containers or ()) == 1 and not pod.spec.init_containers
    isolated = host.isolation.level != "none"
    mounts = mounts_of(container, by_name, places, own, alone=alone and isolated)
    hosts = host.names.write(uid)
    if isolated:
        run.termination.touch()
        run.termination.chmod(0o666)
        mounts += [
            Mount(str(hosts), "/etc/hosts"),
            Mount(str(run.termination), container.termination_message_path or TERMINATION_PATH),
            *sshd_mounts(argv, run, who),
            *ray_mounts(argv, mounts, run),
            *ssh_client_mounts(argv, mounts, peer_of(pod, address), run, who),
            *(
                [*own_places(who, host.users.owner(pod), directory, run), *home_keys(mounts, directory)]
                if who.own
                else ()
            ),
        ]
    else:
        argv, variables = without_mounts(container, mounts, argv, variables)
        argv, variables = _without_names(host, pod, argv, variables, own)
        mounts = []
    security = container.security_context
    return shim_spec(
        run=run,
        argv=argv,
        environment=variables,
        cwd=working_directories(pod, container, host.working_dir, *([HOME] if who.own else [])),
        mounts=mounts,
        hostname=hostname,
        isolation=host.isolation.level,
        cgroups=cgroups,
        who=who,
        covers=host.users.covers(pod),
        writable=host.users.writable(pod),
        read_only_root=bool(security and security.read_only_root_filesystem),
        container=container,
        affinity=host.cpus.cpus_of(uid, container.name),
    )


async def refresh_volumes(host: Host, pod: Pod, directory: PodDir, address: str) -> None:
    """Bring the files of ConfigMap, Secret and downward API volumes of a running pod up to date."""
    if not any(map(is_written, pod.spec.volumes or ())):
        return
    sources = await host.sources.gather(pod)
    facts = PodFacts(address, host.machine.address, host.allocatable)
    await asyncio.to_thread(write_files, pod, directory, sources, facts, host.users.owner(pod))


async def _claimed(host: Host, pod: Pod, container: Container, directory: PodDir) -> list[str]:
    """Cards that a container has through resource claims; the pod's record keeps them for an agent that restarts."""
    if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
        return []
    uid, cards = pod.metadata.uid or "", [gpu.uuid for gpu in host.machine.gpus]
    cards_by_container = await claimed_cards(host.client, pod, pod.spec.node_name or "", cards)
    every = list(dict.fromkeys(card for given in cards_by_container.values() for card in given))
    host.devices.claim(uid, every)
    record = directory.record()
    if record is not None and record.claimed != every:
        directory.write_record(msgspec.structs.replace(record, claimed=every))
    return cards_by_container.get(container.name, [])


def _without_names(
    host: Host, pod: Pod, argv: list[str], variables: Mapping[str, str], own: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    addresses_by_name = host.names.addresses(pod.metadata.namespace or "")
    replaced = {
        name: replace_names(value, addresses_by_name) if name in own else value for name, value in variables.items()
    }
    return [replace_names(part, addresses_by_name) for part in argv], replaced


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

    def stop_all(self, pod: Pod, grace: float) -> None:
        """Ask everything that runs to end."""
        for container in self._all:
            if container.running:
                self.stop(pod, container.name, "the pod is over", grace)

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
