"""MPIJob, ``v1`` and ``v2beta1``: a launcher that logs in to its workers by ssh.

The operator of ``v1`` starts processes with ``kubectl exec`` from the launcher; here both versions use ssh, so the
workers' image needs an ssh server where the worker has no command of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from unisono.api import core
from unisono.api.base import Object, ObjectMeta
from unisono.api.core.pod import PodDNSConfig
from unisono.api.groups.kubeflow import MPIJobSpec
from unisono.api.keys import KUBEFLOW_JOB_NAME, LAST_APPLIED, SSH_AUTH
from unisono.api.kind_families import MPI_JOBS
from unisono.api.kinds import CONFIG_MAPS, SECRETS, SERVICES
from unisono.controllers import pod_facts
from unisono.controllers.owners import TooManyHosts, json_object, list_too_long, owned_by
from unisono.controllers.plan import Resource
from unisono.controllers.training.kubeflow import framework
from unisono.controllers.training.plan import new_keys
from unisono.jobkinds.kubeflow import WAIT_FOR_WORKERS

# Which version of MPIJob its author meant: the versions share their fields, yet label pods differently.

V1: Final = "v1"
V2BETA1: Final = "v2beta1"


def version_of(job: Object) -> str:
    """``v1`` or ``v2beta1``: as applied, else as first written, else by fields that only ``v2beta1`` has."""
    for version in (_applied(job), _written(job)):
        if version:
            return version
    spec: MPIJobSpec = job.spec  # type: ignore[attr-defined]
    later = (spec.run_launcher_as_worker, spec.ssh_auth_mount_path, spec.launcher_creation_policy)
    return V2BETA1 if spec.mpi_implementation or any(each is not None for each in later) else V1


def _applied(job: Object) -> str:
    return _known(json_object((job.metadata.annotations or {}).get(LAST_APPLIED)).get("apiVersion"))


def _written(job: Object) -> str:
    """The version in which the roles were written, as the API server notes it for each writer."""
    for entry in job.metadata.managed_fields or ():
        fields: Any = entry.get("fieldsV1")
        spec = fields.get("f:spec") if isinstance(fields, dict) else None
        if isinstance(spec, dict) and "f:mpiReplicaSpecs" in spec:
            return _known(entry.get("apiVersion"))
    return ""


def _known(api_version: Any) -> str:
    version = str(api_version or "").rpartition("/")[2]
    return version if version in (V1, V2BETA1) else ""


CONFIG_PATH = "/etc/mpi"
ROOT_SSH = "/root/.ssh"
_SSH_ARGUMENTS = "-o ConnectionAttempts=10"
_SSH_FILES = (("ssh-privatekey", "id_rsa"), ("ssh-publickey", "id_rsa.pub"), ("ssh-publickey", "authorized_keys"))
# What a batch/v1 Job allows, which the operator of v2beta1 makes for the launcher.
_LAUNCHER_BACKOFF_LIMIT = 6


class Mpi(framework.Framework):
    """Jobs of ``mpirun``."""

    kind = MPI_JOBS
    operator = "mpijob-controller"
    pod_services = False

    def pod_name(self, view: framework.TrainingView, role: framework.Role, index: int) -> str:
        """The launcher is alone and has no number."""
        return f"{view.name}-launcher" if role.name == "Launcher" else super().pod_name(view, role, index)

    def labels(self, view: framework.TrainingView, role: framework.Role, index: int) -> dict[str, str]:
        """Each version has labels of its own."""
        launcher = role.name == "Launcher"
        if not _is_v2(view):
            given = super().labels(view, role, index)
            return {k: v for k, v in given.items() if not (launcher and k == framework.REPLICA_INDEX)}
        shared = _spec(view).run_launcher_as_worker
        pod_labels = {**self.selector_labels(view), framework.JOB_ROLE: role.lower}
        if shared or not launcher:
            pod_labels[framework.REPLICA_INDEX] = str(0 if launcher else index + bool(shared))
        return pod_labels

    def selector_labels(self, view: framework.TrainingView) -> dict[str, str]:
        """What all pods of the job have in common."""
        operator = "mpi-operator" if _is_v2(view) else self.operator
        return {framework.OPERATOR_NAME: operator, KUBEFLOW_JOB_NAME: view.name}

    def is_master(self, view: framework.TrainingView, role: framework.Role, index: int) -> bool:
        """The launcher; ``v2beta1`` uses the label for the role's name."""
        return role.name == "Launcher" and not _is_v2(view)

    def restart_policy(self, view: framework.TrainingView, role: framework.Role) -> str:
        """In ``v2beta1`` a launcher restarts unless told otherwise."""
        given = (_spec(view).mpi_replica_specs or {}).get(role.name)
        if _is_v2(view) and role.name == "Launcher" and not (given and given.restart_policy):
            return framework.ON_FAILURE
        return super().restart_policy(view, role)

    def is_retried(self, view: framework.TrainingView, role: framework.Role, pod: framework.RolePod) -> bool:
        """In ``v2beta1`` a failed launcher is replaced whatever its policy, and workers are left as they ended."""
        return role.name == "Launcher" if _is_v2(view) else super().is_retried(view, role, pod)

    def over_limit(self, view: framework.TrainingView, restarts: int, in_place: int) -> bool:
        """In ``v2beta1`` as a batch Job counts: so many new tries are allowed."""
        if not _is_v2(view):
            return super().over_limit(view, restarts, in_place)
        limit = view.run.backoff_limit
        return restarts + in_place > (_LAUNCHER_BACKOFF_LIMIT if limit is None else limit)

    def may_start(self, view: framework.TrainingView, role: framework.Role, tallies: framework.Tallies) -> bool:
        """The launcher waits for ready workers where the job says so."""
        workers = tallies.get("Worker")
        if role.name != "Launcher" or workers is None or _spec(view).launcher_creation_policy != WAIT_FOR_WORKERS:
            return True
        return sum(_is_ready(pod) for pod in workers.pods.values()) >= workers.replicas

    def prepare(self, view: framework.TrainingView, role: framework.Role, index: int, pod: core.Pod) -> None:
        """Host name, keys, hosts file, and the variables of the MPI in use."""
        spec, container = pod.spec, self._main(view, pod)
        spec.hostname = spec.hostname or pod.metadata.name
        spec.subdomain = spec.subdomain or view.name
        dns = spec.dns_config = spec.dns_config or PodDNSConfig()
        dns.searches = [*(dns.searches or ()), f"{view.name}.{view.namespace}.svc.cluster.local"]
        _mount(view, pod, container)
        if role.name == "Worker":
            if not container.command and not container.args:
                container.command = ["/usr/sbin/sshd", "-De"]
            framework.append_env([container], [("K_MPI_JOB_ROLE", "worker")])
        else:
            framework.append_env([container], self._launcher_environment(view))

    def resources(self, view: framework.TrainingView, pods: Sequence[framework.RolePod]) -> Iterable[Resource]:
        """Headless Service, hosts files, and keys that are made once."""
        yield Resource(
            SERVICES,
            core.Service(
                metadata=self._meta(view, view.name),
                spec=core.ServiceSpec(
                    cluster_ip="None",
                    selector=self.selector_labels(view),
                    publish_not_ready_addresses=_spec(view).run_launcher_as_worker or None,
                ),
            ),
            warning="FailedCreateService",
        )
        data = {"hostfile": self.hostfile(view), "discover_hosts.sh": self.discover_hosts(view, pods)}
        if why := list_too_long(view.total, sum(map(len, data.values()))):
            raise TooManyHosts(f"the host files: {why}")
        yield Resource(
            CONFIG_MAPS,
            core.ConfigMap(metadata=self._meta(view, f"{view.name}-config"), data=data),
            warning="MPIJobFailed",
        )
        yield Resource(
            SECRETS,
            core.Secret(metadata=self._meta(view, f"{view.name}-ssh"), type=SSH_AUTH),
            warning="MPIJobFailed",
            first_data=new_keys,
        )

    def hostfile(self, view: framework.TrainingView) -> str:
        """One line per host, with its slots."""
        slots = _slots(view)
        form = "{host} slots={slots}\n" if _implementation(view) == "OpenMPI" else "{host}:{slots}\n"
        return "".join(form.format(host=host, slots=slots) for host in self._hosts(view))

    def discover_hosts(self, view: framework.TrainingView, pods: Sequence[framework.RolePod]) -> str:
        """Script that prints the hosts whose pods run; elastic Horovod asks it again and again."""
        running = {pod.name for pod in pods if pod.phase == "Running" and not pod.deleting}
        suffix = "" if _is_v2(view) else f":{_slots(view)}"
        hosts = [host for host in self._hosts(view) if host.partition(".")[0] in running]
        return "#!/bin/sh\n" + "".join(f"echo {host}{suffix}\n" for host in hosts)

    def judge(self, view: framework.TrainingView, tallies: framework.Tallies) -> framework.Judgement:
        """The launcher decides; in ``v1`` a failed worker fails the job as well."""
        judgement = framework.Judgement()
        launcher, workers = (
            tallies.get("Launcher", framework.RoleTally(1)),
            tallies.get("Worker", framework.RoleTally(0)),
        )
        if launcher.expected <= 0:
            judgement.succeeded = _sentence(view, "is successfully completed.", "successfully completed.")
            return judgement
        if launcher.active and (not _is_v2(view) or workers.active >= workers.replicas):
            judgement.running = _sentence(view, "is running.", "is running.")
        if _is_v2(view):
            evicted = sum(pod.crashed and pod.pod.status.reason == "Evicted" for pod in workers.pods.values())
            if evicted:
                judgement.failed = f"{evicted}/{workers.replicas} workers are evicted"
            return judgement
        return framework.judge_by_exit_code(view, tallies, judgement)

    def created(self, view: framework.TrainingView) -> str:
        """Each version has words of its own."""
        return _sentence(view, "is created.", "is created.")

    def _hosts(self, view: framework.TrainingView) -> Iterator[str]:
        suffix = f".{view.name}.{view.namespace}.svc"
        worker = view.role("Worker")
        if self._launcher_works(view):
            yield f"{view.name}-launcher{suffix}"
        for index in range(worker.replicas if worker is not None else 0):
            yield f"{view.name}-worker-{index}{suffix}"

    def _launcher_works(self, view: framework.TrainingView) -> bool:
        """Whether processes run beside the launcher: asked for, or, in ``v1``, a launcher that has GPUs."""
        if _is_v2(view):
            return bool(_spec(view).run_launcher_as_worker)
        launcher = view.role("Launcher")
        containers = (launcher.template.spec.containers or []) if launcher is not None else []
        names = [name for each in containers for name in each.resources.limits or {}]
        return any(name.endswith(".com/gpu") or "gpu" in name for name in names)

    def _launcher_environment(self, view: framework.TrainingView) -> Iterator[tuple[str, str]]:
        slots, hostfile = str(_slots(view)), f"{CONFIG_PATH}/hostfile"
        yield "K_MPI_JOB_ROLE", "launcher"
        match _implementation(view):
            case "Intel":
                yield "I_MPI_HYDRA_HOST_FILE", hostfile
                yield "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", _SSH_ARGUMENTS
                yield "I_MPI_PERHOST", slots
            case "MPICH":
                yield "HYDRA_HOST_FILE", hostfile
                yield "HYDRA_LAUNCH_EXTRA_ARGS", _SSH_ARGUMENTS
            case _:
                yield "OMPI_MCA_orte_keep_fqdn_hostnames", "true"
                yield "OMPI_MCA_orte_default_hostfile", hostfile
                yield "OMPI_MCA_plm_rsh_args", _SSH_ARGUMENTS
                yield "OMPI_MCA_orte_set_default_slots", slots
        if not self._launcher_works(view):
            # The launcher itself must not see cards that its node happens to have.
            yield "NVIDIA_VISIBLE_DEVICES", ""
            yield "NVIDIA_DRIVER_CAPABILITIES", ""

    def _main(self, view: framework.TrainingView, pod: core.Pod) -> core.Container:
        containers, name = pod.spec.containers or [core.Container(name="main")], _spec(view).main_container
        return next((each for each in containers if each.name == name), containers[0])

    def _meta(self, view: framework.TrainingView, name: str) -> ObjectMeta:
        return ObjectMeta(
            name=name,
            namespace=view.namespace,
            labels={"app": view.name},
            owner_references=[owned_by(MPI_JOBS, view.job)],
        )


def _mount(view: framework.TrainingView, pod: core.Pod, container: core.Container) -> None:
    path = _spec(view).ssh_auth_mount_path or ROOT_SSH
    keys = [core.KeyToPath(key=key, path=file) for key, file in _SSH_FILES]
    secret = core.SecretVolumeSource(secret_name=f"{view.name}-ssh", items=keys)
    if path == ROOT_SSH:
        secret.default_mode = 0o600
    config = core.ConfigMapVolumeSource(
        name=f"{view.name}-config",
        items=[
            core.KeyToPath(key="hostfile", path="hostfile", mode=0o444),
            core.KeyToPath(key="discover_hosts.sh", path="discover_hosts.sh", mode=0o555),
        ],
    )
    of_keys, of_hosts = view.facts.volumes
    pod.spec.volumes = [
        *(pod.spec.volumes or ()),
        core.Volume(name=of_keys, secret=secret),
        core.Volume(name=of_hosts, config_map=config),
    ]
    container.volume_mounts = [
        *(container.volume_mounts or ()),
        core.VolumeMount(name=of_keys, mount_path=path),
        core.VolumeMount(name=of_hosts, mount_path=CONFIG_PATH),
    ]


def _is_ready(pod: framework.RolePod) -> bool:
    return pod.phase == "Running" and pod_facts.is_ready(pod.pod)


def _is_v2(view: framework.TrainingView) -> bool:
    return version_of(view.job) == V2BETA1


def _sentence(view: framework.TrainingView, v1: str, v2: str) -> str:
    return f"MPIJob {view.namespace}/{view.name} {v2}" if _is_v2(view) else f"MPIJob {view.name} {v1}"


def _slots(view: framework.TrainingView) -> int:
    slots = _spec(view).slots_per_worker
    return 1 if slots is None else slots


def _implementation(view: framework.TrainingView) -> str:
    return _spec(view).mpi_implementation or "OpenMPI"


def _spec(view: framework.TrainingView) -> MPIJobSpec:
    spec = view.job.spec
    assert isinstance(spec, MPIJobSpec)
    return spec
