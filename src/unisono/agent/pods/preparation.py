"""Everything a container needs before its process starts: volumes, variables, command, mounts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from unisono.agent.devices.claims import claimed_cards
from unisono.agent.devices.inventory import variables_of
from unisono.agent.devices.mps import mps_pipes, mps_variables
from unisono.agent.environment import variables as env
from unisono.agent.host import Host
from unisono.agent.layout import PodDir, RunDir
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
from unisono.agent.volumes.claims import claim_folders
from unisono.agent.volumes.mounts import Mount, mounts_of, prepare_volumes
from unisono.agent.volumes.written_files import PodFacts, is_written, write_files
from unisono.api.core import Container, Pod
from unisono.api.names import dns_label
from unisono.errors import AgentError


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
    found = await claimed_cards(host.client, pod, pod.spec.node_name or "", cards)
    every = list(dict.fromkeys(card for given in found.values() for card in given))
    host.devices.claim(uid, every)
    record = directory.record()
    if record is not None and record.claimed != every:
        directory.write_record(msgspec.structs.replace(record, claimed=every))
    return found.get(container.name, [])


def _without_names(
    host: Host, pod: Pod, argv: list[str], variables: Mapping[str, str], own: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    known = host.names.addresses(pod.metadata.namespace or "")
    replaced = {name: replace_names(value, known) if name in own else value for name, value in variables.items()}
    return [replace_names(part, known) for part in argv], replaced
