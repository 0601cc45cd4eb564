"""MPI in a TrainJob: keys, a file of hosts, and the variables of OpenMPI."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.base import ObjectMeta
from unisono.api.core import (
    ConfigMap,
    ConfigMapVolumeSource,
    EnvVar,
    KeyToPath,
    PodTemplateSpec,
    Secret,
    SecretVolumeSource,
    Volume,
    VolumeMount,
)
from unisono.api.groups.job_set import JobSetSpec
from unisono.api.groups.trainer import MpiPolicy, TrainJob
from unisono.api.keys import SSH_AUTH
from unisono.api.kind_families import TRAIN_JOBS
from unisono.api.kinds import CONFIG_MAPS, SECRETS
from unisono.controllers.host_lists import TooManyHosts, list_too_long
from unisono.controllers.owners import owned_by
from unisono.controllers.plan import Resource
from unisono.controllers.training.ssh import new_keys

LAUNCHER, NODE = "launcher", "node"
_FILES = (("ssh-privatekey", "id_rsa"), ("ssh-publickey", "id_rsa.pub"), ("ssh-publickey", "authorized_keys"))


def add_mpi(job: TrainJob, policy: MpiPolicy, spec: JobSetSpec) -> None:
    """Mount keys and hosts where processes start or are started, and tell OpenMPI of them."""
    name = job.metadata.name
    for replicated in spec.replicated_jobs or ():
        if replicated.name not in (LAUNCHER, NODE):
            continue
        pods = replicated.template.spec.template
        keys = [KeyToPath(key=key, path=path) for key, path in _FILES]
        _mount(
            pods,
            Volume(
                name="mpi-ssh-auth",
                secret=SecretVolumeSource(secret_name=f"{name}-mpi-ssh-auth", items=keys, default_mode=0o600),
            ),
            policy.ssh_auth_mount_path or "/root/.ssh",
        )
        if replicated.name == LAUNCHER:
            source = ConfigMapVolumeSource(name=f"{name}-mpi-hostfile")
            _mount(pods, Volume(name="mpi-hostfile", config_map=source), "/etc/mpi")
            for container in (pods.spec.containers or [])[:1]:
                container.env = [*(container.env or ()), *_variables(job, policy)]


def mpi_objects(job: TrainJob, policy: MpiPolicy, spec: JobSetSpec) -> Iterator[Resource]:
    """The keys and the file of hosts.

    Raises:
        TooManyHosts: no ConfigMap can hold the file; found before it is built.

    """
    name, slots = job.metadata.name, _slots(job, policy)
    hosts = [f"{name}-{LAUNCHER}-0-0.{name}"] if policy.run_launcher_as_node else []
    numbers = [each.template.spec.completions or 0 for each in spec.replicated_jobs or () if each.name == NODE]
    shortest = len(_line(f"{name}-{NODE}-0-0.{name}", slots))
    if why := list_too_long(sum(numbers), sum(numbers) * shortest):
        raise TooManyHosts(f"the runtime's MPI host file: {why}")
    hosts += [f"{name}-{NODE}-0-{index}.{name}" for number in numbers for index in range(number)]
    text = "".join(_line(host, slots) for host in hosts)
    yield Resource(CONFIG_MAPS, ConfigMap(metadata=_meta(job, f"{name}-mpi-hostfile"), data={"hostfile": text}))
    secret = Secret(metadata=_meta(job, f"{name}-mpi-ssh-auth"), type=SSH_AUTH)
    yield Resource(SECRETS, secret, first_data=new_keys)


def _variables(job: TrainJob, policy: MpiPolicy) -> list[EnvVar]:
    return [
        EnvVar(name="OMPI_MCA_orte_default_hostfile", value="/etc/mpi/hostfile"),
        EnvVar(name="OMPI_MCA_orte_keep_fqdn_hostnames", value="true"),
        EnvVar(name="OMPI_MCA_orte_set_default_slots", value=str(_slots(job, policy))),
        EnvVar(name="OMPI_MCA_plm_rsh_args", value="-o ConnectionAttempts=10"),
    ]


def _line(host: str, slots: int) -> str:
    return f"{host} slots={slots}\n"


def _slots(job: TrainJob, policy: MpiPolicy) -> int:
    wanted = job.spec.trainer.num_proc_per_node if job.spec.trainer else None
    return wanted if isinstance(wanted, int) else policy.num_proc_per_node or 1


def _mount(pods: PodTemplateSpec, volume: Volume, path: str) -> None:
    pods.spec.volumes = [*(pods.spec.volumes or ()), volume]
    for container in (pods.spec.containers or [])[:1]:
        container.volume_mounts = [*(container.volume_mounts or ()), VolumeMount(name=volume.name, mount_path=path)]


def _meta(job: TrainJob, name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=job.metadata.namespace, owner_references=[owned_by(TRAIN_JOBS, job)])
