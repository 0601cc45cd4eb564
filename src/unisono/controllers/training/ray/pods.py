"""Pods of a Ray cluster and the Service of its head."""

from __future__ import annotations

import base64
import hashlib
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import msgspec

from unisono.api import core
from unisono.api.annotations import WORKING_DIRECTORY
from unisono.api.base import ObjectMeta
from unisono.api.groups.ray import RayCluster, RayHeadGroupSpec, RayWorkerGroupSpec
from unisono.api.keys import APP_NAME, GROUP_NAME, QUEUE_NAME, RAY_CLUSTER, RAY_GROUP, TASK_INDEX, TASK_SPEC, TPU
from unisono.api.kind_families import RAY_CLUSTERS
from unisono.api.quantity import parse_quantity, to_int, to_milli
from unisono.api.selecting import DEFAULT_QUEUE
from unisono.controllers import owners
from unisono.controllers.owners import owned_by, whole_number
from unisono.controllers.pod_facts import is_active
from unisono.jobkinds.ray import HEAD_GROUP, desired, hosts
from unisono.jobkinds.registry import queue_of

# Labels of Ray's pods, and names that are made from a cluster's name.

NODE_TYPE: Final = "ray.io/node-type"
IS_RAY_NODE: Final = "ray.io/is-ray-node"
IDENTIFIER: Final = "ray.io/identifier"
ORIGIN_NAME: Final = "ray.io/originated-from-cr-name"
ORIGIN_KIND: Final = "ray.io/originated-from-crd"
SERVE: Final = "ray.io/serve"

# Prefixes of pod names are cut to so many letters.
_LONGEST = 50

GCS_PORT, DASHBOARD_PORT, CLIENT_PORT, METRICS_PORT, SERVE_PORT = 6379, 8265, 10001, 8080, 8000
# Where Ray's agent on each node listens, for its own cluster only.
AGENT_PORT = 52365
PORTS: Final = {
    "client": CLIENT_PORT,
    "dashboard": DASHBOARD_PORT,
    "gcs-server": GCS_PORT,
    "metrics": METRICS_PORT,
    "serve": SERVE_PORT,
}


def head_service_name(cluster: str) -> str:
    """Name of the head's Service."""
    return f"{cluster}-head-svc"


def serve_service_name(service: str) -> str:
    """Name of the Service of a RayService's applications."""
    return f"{service}-serve-svc"


def head_address(cluster: str, namespace: str) -> str:
    """Full name of the head's Service."""
    return f"{head_service_name(cluster)}.{namespace}.svc.cluster.local"


def letters(*parts: object) -> str:
    """Five letters that are the same for the same parts."""
    digest = hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()
    return base64.b32encode(digest).decode().lower()[:5]


def pod_name(prefix: str, *parts: object) -> str:
    """The prefix, cut, and letters made from ``parts``."""
    return f"{prefix[: _LONGEST - 1].rstrip('-.')}-{letters(*parts)}"


@dataclass(frozen=True, slots=True)
class Place:
    """One pod that the cluster wants: the head has group ``headgroup`` and index 0."""

    group: str
    index: int
    name: str
    template: core.PodTemplateSpec
    params: dict[str, str]
    labels: Mapping[str, str]

    @property
    def is_head(self) -> bool:
        """Whether this is the head."""
        return self.group == HEAD_GROUP


class RayClusterView:
    """One cluster; cheap to make, never changes it."""

    def __init__(self, cluster: RayCluster) -> None:
        self.cluster, self.spec, self.status = cluster, cluster.spec, cluster.status
        meta = cluster.metadata
        self.name, self.namespace, self.uid = meta.name, meta.namespace or "", meta.uid or ""
        self.marks = meta.labels or {}

    @property
    def workers(self) -> list[RayWorkerGroupSpec]:
        """Worker groups that are not suspended."""
        return [group for group in self.spec.worker_group_specs or () if not group.suspend]

    def places(self, pods: Iterable[core.Pod] = ()) -> Iterator[Place]:
        """Every pod that the cluster wants, the head first.

        Workers that are there keep their places, but for those that ``workersToDelete`` names: with fewer replicas
        these go and the others stay, with as many as before new ones come in their place.

        Args:
            pods: the cluster's pods.
        """
        head = self.spec.head_group_spec
        name = pod_name(f"{self.name}-head", self.uid, HEAD_GROUP, 0)
        yield Place(HEAD_GROUP, 0, name, head.template, _params(head), head.labels or {})
        living = [pod for pod in pods if is_active(pod)]
        for group in self.workers:
            for index in self._indexes(group, living):
                name = self._worker(group, index)
                yield Place(group.group_name, index, name, group.template, _params(group), group.labels or {})

    def _worker(self, group: RayWorkerGroupSpec, index: int) -> str:
        return pod_name(f"{self.name}-{group.group_name}-worker", self.uid, group.group_name, index)

    def _indexes(self, group: RayWorkerGroupSpec, living: Iterable[core.Pod]) -> Iterator[int]:
        """Numbers of the pods that a group wants; the hosts of one replica come and go together."""
        size, replicas = hosts(group), desired(group) // hosts(group)
        unwanted = set((group.scale_strategy.workers_to_delete if group.scale_strategy else None) or ())

        def goes(replica: int) -> bool:
            return bool(unwanted) and any(
                self._worker(group, replica * size + host) in unwanted for host in range(size)
            )

        there = sorted({number // size for pod in living if (number := _number_in(group, pod)) is not None})
        chosen = [replica for replica in there if not goes(replica)][:replicas]
        taken = set(chosen)
        free = (replica for replica in count() if replica not in taken and not goes(replica))
        chosen += [next(free) for _ in range(replicas - len(chosen))]
        for replica in sorted(chosen):
            yield from range(replica * size, (replica + 1) * size)

    @property
    def group_name(self) -> str:
        """Name of the pod group: after the job that the cluster was made for, else after the cluster."""
        made_for_job = self.marks.get(ORIGIN_KIND) == "RayJob"
        return f"ray-{self.marks.get(ORIGIN_NAME, self.name) if made_for_job else self.name}-pg"

    @property
    def queue(self) -> str:
        """Where the gang waits."""
        return queue_of(self.cluster) or DEFAULT_QUEUE


def _number_in(group: RayWorkerGroupSpec, pod: core.Pod) -> int | None:
    """Number of a pod within a group; None for pods of other groups."""
    if (pod.metadata.labels or {}).get(RAY_GROUP) != group.group_name:
        return None
    return whole_number((pod.metadata.annotations or {}).get(TASK_INDEX))


def most(group: RayWorkerGroupSpec) -> int:
    """Pods that the group may have."""
    return (2**31 - 1 if group.max_replicas is None else group.max_replicas) * hosts(group)


# Parameters of ``ray start`` to which true and false are values like others; to all others they turn a switch.
_WITH_TRUTHS = frozenset({"log-color", "include-dashboard", "include-log-monitor"})
_ACCELERATORS = {"aws.amazon.com/neuroncore": "neuron_cores", TPU: "TPU"}
"""Resources of containers, and what Ray calls them."""
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  # nosec B108 # where Ray keeps its objects


def build_pod(view: RayClusterView, place: Place) -> core.Pod:
    """One pod of the cluster, a member of its gang."""
    template = msgspec.json.decode(msgspec.json.encode(place.template), type=core.PodTemplateSpec)
    given = view.cluster.metadata.annotations or {}
    pod = core.Pod(
        metadata=ObjectMeta(
            name=place.name,
            namespace=view.namespace,
            labels={**(template.metadata.labels or {}), **place.labels, **_labels(view, place)},
            annotations={
                **{key: given[key] for key in (WORKING_DIRECTORY,) if key in given},
                **owners.inherited_annotations(given),
                **(template.metadata.annotations or {}),
                GROUP_NAME: view.group_name,
                QUEUE_NAME: view.queue,
                TASK_SPEC: place.group,
                TASK_INDEX: str(place.index),
            },
            owner_references=[owned_by(RAY_CLUSTERS, view.cluster)],
            finalizers=template.metadata.finalizers,
        ),
        spec=template.spec,
    )
    spec = pod.spec
    spec.restart_policy = spec.restart_policy or "Always"
    spec.scheduler_name = spec.scheduler_name or "volcano"
    containers = spec.containers or [core.Container(name="ray")]
    if not place.is_head:
        spec.init_containers = [*(spec.init_containers or ()), _wait_for_head(view, containers[0])]
    _share_memory(pod, containers[0])
    _start_ray(view, place, containers[0])
    owners.tell_kind_of_nodes(pod)
    return pod


def head_ports(template: core.PodTemplateSpec) -> dict[str, int]:
    """Ports of a head by name: those of its first container, and Ray's own whose name and number are free."""
    containers = template.spec.containers or []
    own = (containers[0].ports or ()) if containers else ()
    ports_by_name: dict[str, int] = {}
    for name, number in (
        *((port.name or f"{port.container_port}-port", port.container_port) for port in own),
        *PORTS.items(),
    ):
        if name not in ports_by_name and number not in ports_by_name.values():
            ports_by_name[name] = number
    return ports_by_name


def head_service(view: RayClusterView) -> core.Service:
    """The Service of the head; what ``headService`` says is merged into it."""
    head = view.spec.head_group_spec
    own: dict[str, Any] = head.head_service or {}
    marks = {**_labels(view, next(view.places())), **((own.get("metadata") or {}).get("labels") or {})}
    asked: dict[str, Any] = own.get("spec") or {}
    taken = {taken for port in asked.get("ports") or () for taken in (port.get("name"), port.get("port"))}
    spec = core.ServiceSpec(
        cluster_ip="None" if not head.service_type else None,
        type=head.service_type or None,
        selector=_selector(view),
        publish_not_ready_addresses=True if not head.service_type else None,
        ports=[
            core.ServicePort(name=name, port=number, target_port=number, app_protocol="tcp")
            for name, number in sorted(head_ports(head.template).items())
            if not taken & {name, number}
        ],
    )
    generated = msgspec.to_builtins(spec)
    ports = [*(asked.get("ports") or ()), *generated["ports"]]
    merged = {**generated, **asked, "ports": ports, "selector": generated["selector"]}
    annotations = {
        **((own.get("metadata") or {}).get("annotations") or {}),
        **(view.spec.head_service_annotations or {}),
    }
    return core.Service(
        metadata=ObjectMeta(
            name=head_service_name(view.name),
            namespace=view.namespace,
            labels=marks,
            annotations=annotations or None,
            owner_references=[owned_by(RAY_CLUSTERS, view.cluster)],
        ),
        spec=msgspec.convert(merged, core.ServiceSpec),
    )


def start_command(view: RayClusterView, place: Place, container: core.Container) -> str:
    """The ``ray start`` of a pod: parameters of the group over those that follow from the container.

    As KubeRay has it, they go to the shell as they were written: authors quote for it and name variables.
    """
    params = {"block": "true", "metrics-export-port": str(METRICS_PORT), **dict(_amounts(container))}
    if place.is_head:
        params["dashboard-host"] = "0.0.0.0"  # noqa: S104  # nosec B104 # the dashboard is for other pods
    else:
        params["address"] = f"{head_address(view.name, view.namespace)}:{_gcs_port(view)}"
    params |= place.params
    words = ["ray start", *(["--head"] if place.is_head else [])]
    for name, value in sorted(params.items()):
        if value.lower() in ("true", "false") and name not in _WITH_TRUTHS:
            words += [f"--{name}"] if value.lower() == "true" else []
        else:
            words.append(f"--{name}={value}")
    return " ".join(words)


_NUMBERS = {"cpu": "num-cpus", "memory": "memory"}


def _as_json(amounts: Mapping[str, float]) -> str:
    return shlex.quote(msgspec.json.encode(amounts, order="sorted").decode())


def _params(group: RayHeadGroupSpec | RayWorkerGroupSpec) -> dict[str, str]:
    """What the group wants ``ray start`` to be told; its resources and labels come before ``rayStartParams``."""
    params, others = dict(group.ray_start_params or {}), {}
    for name, value in (group.resources or {}).items():
        amount, lower = parse_quantity(value), name.lower()
        key = _NUMBERS.get(lower) or ("num-gpus" if lower.endswith("gpu") else "")
        if key:
            params[key] = str(math.ceil(amount))
        else:
            others[name] = float(amount)
    if others:
        params["resources"] = _as_json(others)
    if group.labels:
        params["labels"] = shlex.quote(",".join(f"{name}={value}" for name, value in sorted(group.labels.items())))
    return params


def _gcs_port(view: RayClusterView) -> str:
    return (view.spec.head_group_spec.ray_start_params or {}).get("port") or str(GCS_PORT)


def _labels(view: RayClusterView, place: Place) -> dict[str, str]:
    labels = {
        IS_RAY_NODE: "yes",
        RAY_CLUSTER: view.name,
        NODE_TYPE: "head" if place.is_head else "worker",
        RAY_GROUP: place.group,
        IDENTIFIER: f"{view.name}-{'head' if place.is_head else 'worker'}",
        APP_NAME: "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    kept = (ORIGIN_NAME, ORIGIN_KIND)
    return labels | {key: view.marks[key] for key in kept if key in view.marks}


def _selector(view: RayClusterView) -> dict[str, str]:
    marks = _labels(view, next(view.places()))
    return {key: marks[key] for key in (RAY_CLUSTER, IDENTIFIER, NODE_TYPE)}


def _amounts(container: core.Container) -> Iterator[tuple[str, str]]:
    """What Ray is told of the container: CPUs, memory in bytes, accelerators; limits, and for CPUs else requests."""
    limits, requests = container.resources.limits or {}, container.resources.requests or {}
    cpu = limits.get("cpu", requests.get("cpu"))
    if cpu is not None:
        yield "num-cpus", str(-(-to_milli(cpu) // 1000))
    if "memory" in limits:
        yield "memory", str(to_int(limits["memory"]))
    gpus = [int(parse_quantity(value)) for name, value in limits.items() if name.endswith("gpu")]
    if any(gpus):
        yield "num-gpus", str(sum(gpus))
    others = {_ACCELERATORS[name]: float(parse_quantity(limits[name])) for name in limits if name in _ACCELERATORS}
    if others:
        yield "resources", _as_json(others)


def _start_ray(view: RayClusterView, place: Place, container: core.Container) -> None:
    """Run ``ray start`` in the first container, after what its author wants to run before."""
    command = start_command(view, place, container)
    before = shlex.join([*(container.command or ()), *(container.args or ())])
    shell = container.command[0].rpartition("/")[2] if container.command else ""
    if container.command and shell in ("bash", "sh") and container.command[1:2] == ["-c"]:
        before = " ".join([*container.command[2:], *(container.args or ())]).removeprefix("-- ")
    container.command = ["/bin/bash", "-c", "--"]
    container.args = [" ; ".join(["ulimit -n 65536", " && ".join([*([before] if before else []), command])])]
    if place.is_head:
        container.readiness_probe = container.readiness_probe or _takes_jobs(place)
        taken = {port.container_port for port in container.ports or ()}
        ports = sorted(head_ports(view.spec.head_group_spec.template).items())
        container.ports = [
            *(container.ports or ()),
            *(core.ContainerPort(name=name, container_port=port) for name, port in ports if port not in taken),
        ]
    set_already = {each.name for each in container.env or ()}
    added = [each for each in _environment(view, place, command) if each.name not in set_already]
    container.env = [*(container.env or ()), *added]


def _takes_jobs(place: Place) -> core.Probe | None:
    """The head is ready when its dashboard listens, and the agent that starts what is submitted to the dashboard.

    None where there is no dashboard.
    """
    params = place.params
    if params.get("include-dashboard", "true").lower() != "true":
        return None
    ports = (
        params.get("dashboard-agent-listen-port", str(AGENT_PORT)),
        params.get("dashboard-port", str(DASHBOARD_PORT)),
    )
    # Bash connects by itself: not every image has a program for HTTP.
    tries = " && ".join(f": </dev/tcp/127.0.0.1/{shlex.quote(port)}" for port in ports)
    return core.Probe(
        exec=core.ExecAction(command=["/bin/bash", "-c", tries]),
        period_seconds=2,
        timeout_seconds=5,
        failure_threshold=10,
    )


def _environment(view: RayClusterView, place: Place, command: str) -> list[core.EnvVar]:
    address, port = head_address(view.name, view.namespace), _gcs_port(view)
    local = "127.0.0.1"
    variables = [] if place.is_head else [core.EnvVar(name="FQ_RAY_IP", value=address)]
    variables += [
        core.EnvVar(name="RAY_IP", value=local if place.is_head else head_service_name(view.name)),
        _field("RAY_CLUSTER_NAME", f"metadata.labels['{RAY_CLUSTER}']"),
        _field("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
        _field("RAY_CLOUD_INSTANCE_ID", "metadata.name"),
        _field("RAY_NODE_TYPE_NAME", f"metadata.labels['{RAY_GROUP}']"),
        core.EnvVar(name="KUBERAY_GEN_RAY_START_CMD", value=command),
        core.EnvVar(name="RAY_PORT", value=port),
        core.EnvVar(name="RAY_ADDRESS", value=f"{local if place.is_head else address}:{port}"),
        core.EnvVar(name="RAY_USAGE_STATS_KUBERAY_IN_USE", value="1"),
    ]
    return variables


def _field(name: str, path: str) -> core.EnvVar:
    return core.EnvVar(name=name, value_from=core.EnvVarSource(field_ref=core.ObjectFieldSelector(field_path=path)))


def _wait_for_head(view: RayClusterView, like: core.Container) -> core.Container:
    """An init container that ends well as soon as the head answers."""
    address = f"{head_address(view.name, view.namespace)}:{_gcs_port(view)}"
    script = (
        f"until ray health-check --address {address} >/dev/null 2>&1; do "
        f"echo waiting for the head at {address}; sleep 5; done"
    )
    amounts: dict[str, str | int | float] = {"cpu": "200m", "memory": "256Mi"}
    return core.Container(
        name="wait-gcs-ready",
        image=like.image,
        image_pull_policy=like.image_pull_policy,
        command=["/bin/bash", "-c", "--"],
        args=[script],
        env=list(like.env) if like.env else None,
        env_from=list(like.env_from) if like.env_from else None,
        volume_mounts=list(like.volume_mounts) if like.volume_mounts else None,
        security_context=like.security_context,
        resources=core.ResourceRequirements(limits=dict(amounts), requests=dict(amounts)),
    )


def _share_memory(pod: core.Pod, container: core.Container) -> None:
    """Ray's object store lives in shared memory, of which containers have little by default."""
    mounted = any(mount.mount_path == _SHARED_MEMORY for mount in container.volume_mounts or ())
    if mounted or any(volume.name == "shared-mem" for volume in pod.spec.volumes or ()):
        return
    limit = (container.resources.requests or {}).get("memory")
    source = core.EmptyDirVolumeSource(medium="Memory", size_limit=limit)
    pod.spec.volumes = [*(pod.spec.volumes or ()), core.Volume(name="shared-mem", empty_dir=source)]
    container.volume_mounts = [
        *(container.volume_mounts or ()),
        core.VolumeMount(name="shared-mem", mount_path=_SHARED_MEMORY),
    ]
