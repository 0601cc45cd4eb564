"""A live cluster as the beginning of a simulation: its objects, its jobs, and the configuration of its scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unisono.api.annotations import CONFIGURATION_SOURCE, CYCLES_LEASE
from unisono.api.base import Object, ObjectMeta
from unisono.api.core import Container, Node, Pod, PodSpec, PodStatus, ResourceRequirements
from unisono.api.decode import decode
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.groups.topology import HyperNode
from unisono.api.keys import CONFIG_MAP_NAMES, CONFIG_MAP_NAMESPACE, GPU_COUNT, GPU_MILLI, GROUP_NAME, NVIDIA_GPU
from unisono.api.kind import Kind
from unisono.api.kinds import CONFIG_MAPS, JOBS, LEASES, PODS, QUEUES, find
from unisono.api.pod_states import has_ended
from unisono.api.resources import pod_requests, resource_list, to_wire
from unisono.api.selecting import pod_group_name
from unisono.api.times import rfc3339
from unisono.cluster.recent import RunTimes, beginning
from unisono.cluster.records import Task
from unisono.cluster.resources import scheduled
from unisono.cluster.state import ClusterState
from unisono.controllers.job.pods import PodBuilder
from unisono.controllers.job.view import JobView
from unisono.engine.config_file.reader import DEFAULT_TEXT
from unisono.engine.session.run_times import RunEstimates
from unisono.engine.session.session import Session
from unisono.errors import ApiError, ConfigError, NotFound
from unisono.gc_pauses import collector_paused
from unisono.kube.client import Client
from unisono.scheduler.feed import KINDS, OPTIONAL
from unisono.scheduler.settings import INSTALLED_KEY, INSTALLED_NAME, holds_configuration, text_of
from unisono.simulator.clusters import Cluster, as_stated, make_queue, paths_of
from unisono.simulator.files import InputError
from unisono.simulator.workload.job import MOST_PODS, WHOLE_GPU, Job, Role
from unisono.simulator.world.live_jobs import Adopted
from unisono.simulator.world.objects import SCHEDULER

# The configuration that the scheduler of a live cluster follows, as far as it can be read from here.

_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Followed:
    """A configuration.

    Attributes:
        text: as it is written.
        name: where it stands, in words.
        hidden: where the one in force stands, when it cannot be read and this is the default one; else empty.
    """

    text: str
    name: str
    hidden: str = ""


async def configuration_in_force(client: Client, namespaces: tuple[str, ...] = ()) -> Followed:
    """What the scheduler follows, in the order in which it looks itself.

    1. A ConfigMap of namespace ``volcano-system`` where users of Volcano keep it: it comes before all others.
    2. The ConfigMap of the installation, in one of ``namespaces``.
    3. The file that the scheduler names in the Lease of its heartbeat, where it can be read on this machine: so for
       ``unisono up --scheduler-config FILE``.
    4. The default one. It is the answer as well where the one in force cannot be read; ``hidden`` says so then.

    Args:
        client: with the credentials of the one who asks.
        namespaces: where the installation may be.
    """
    configuration, hidden = await configuration_in_maps(client, namespaces)
    if configuration is not None:
        return configuration
    source = await _source(client)
    if source and Path(source).is_absolute() and not hidden:
        text = await asyncio.to_thread(_read, Path(source))
        if text is not None:
            return Followed(text, source)
        hidden = source
    return Followed(DEFAULT_TEXT, "default configuration", hidden)


async def configuration_in_maps(client: Client, namespaces: tuple[str, ...] = ()) -> tuple[Followed | None, str]:
    """The first that a ConfigMap holds, and the place of the first ConfigMap that could not be read; else empty.

    Args:
        client: with the credentials of the one who asks.
        namespaces: where the installation may be; the ConfigMap of Volcano's users comes first in any case.
    """
    maps = [(CONFIG_MAP_NAMESPACE, name, "") for name in (*CONFIG_MAP_NAMES, *await _other_releases(client))]
    maps += [(namespace, INSTALLED_NAME, INSTALLED_KEY) for namespace in namespaces]
    hidden = ""
    for namespace, name, key in maps:
        place = f"ConfigMap {namespace}/{name}"
        try:
            return Followed(text_of(await client.get(CONFIG_MAPS, name, namespace), key), place), hidden
        except ConfigError:
            continue
        except ApiError as error:
            hidden = hidden or (place if error.code != 404 else "")
    return None, hidden


async def _other_releases(client: Client) -> list[str]:
    """Names of the ConfigMaps that Volcano's chart makes for releases of other names, where they may be listed."""
    try:
        listing = await client.list(CONFIG_MAPS, namespace=CONFIG_MAP_NAMESPACE)
    except ApiError:
        return []
    names = {one.metadata.name for one in listing.items} - set(CONFIG_MAP_NAMES)
    return sorted(name for name in names if holds_configuration(name))


async def _source(client: Client) -> str:
    """Where the scheduler says that its configuration stands; empty for the default one, or where it does not say."""
    try:
        lease = await client.get(LEASES, CYCLES_LEASE, "kube-system")
    except ApiError:
        return ""
    return (lease.metadata.annotations or {}).get(CONFIGURATION_SOURCE, "")


def _read(file: Path) -> str | None:
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(_MOST_BYTES)
    except (OSError, UnicodeDecodeError):
        return None
    return text if len(text) < _MOST_BYTES else None


# A live cluster as the beginning of a simulation: its objects, its jobs, and how long they may still run.
#
# Pods without a PodGroup keep their places. A PodGroup whose pods have not been made yet gets those that the controller
# of its Job will make, when it is admitted; one of another kind gets pods that share its ``minResources``, or is left
# out.

FALLBACK = 3600.0
"""Seconds for jobs whose run time is not known."""
_MIB = 1 << 20
_OWN_FIELDS = frozenset(("cpu", "memory", "pods", NVIDIA_GPU))
"""Resources for which a role has fields, or of which each pod takes one."""


@dataclass(slots=True)
class LiveObjects:
    """Objects by kind, as lists of the API give them."""

    by_kind: dict[str, tuple[Kind[Any], list[Object]]] = field(default_factory=dict)

    def add(self, kind: Kind[Any], objects: Iterable[Object]) -> None:
        """Take in objects of a kind."""
        self.by_kind.setdefault(kind.kind, (kind, []))[1].extend(objects)

    def of(self, name: str) -> list[Any]:
        """Objects of a kind by its name."""
        return self.by_kind.get(name, (None, []))[1]

    def state(self, run_times: RunTimes | None = None, *, more: Sequence[Pod] = ()) -> ClusterState:
        """A state with all of them in it, and with more pods, as the scheduler would have it."""
        state = ClusterState()
        if run_times is not None:
            state.run_times = deepcopy(run_times)  # each future learns for itself
        with collector_paused():
            for kind, objects in self.by_kind.values():
                state.replace(kind, objects)
            for pod in more:
                state.apply("ADDED", PODS, pod)
        return state

    def without(self, over: Set[str]) -> LiveObjects:
        """The same without these PodGroups and their pods."""
        reduced = LiveObjects(dict(self.by_kind))
        for name in ("PodGroup", "Pod"):
            if name in reduced.by_kind and over:
                kind, objects = reduced.by_kind[name]
                reduced.by_kind[name] = kind, [each for each in objects if group_key(each) not in over]
        return reduced

    def cluster(self) -> Cluster:
        """The nodes, queues and HyperNodes."""
        nodes: dict[str, Node] = {node.metadata.name: node for node in self.of("Node")}
        queues: tuple[Queue, ...] = tuple(self.of("Queue"))
        hyper_nodes: tuple[HyperNode, ...] = tuple(self.of("HyperNode"))
        floating = tuple(as_stated(each) for each in self.of("FloatingResource"))
        return Cluster(
            tuple(nodes.values()),
            queues,
            hyper_nodes,
            paths_of(hyper_nodes, nodes),
            floating=floating,
            budgets=tuple(self.of("Budget")),
            price_lists=tuple(self.of("PriceList")),
        )


def group_key(obj: Any) -> str:
    """Key of a PodGroup, or of that of a pod; empty for a pod without one."""
    if isinstance(obj, PodGroup):
        return obj.key
    name = pod_group_name(obj.metadata.annotations, obj.spec)
    return f"{obj.metadata.namespace}/{name}" if name else ""


@dataclass(frozen=True, slots=True)
class Guess:
    """How long a job runs in all, as far as anything tells.

    Attributes:
        seconds: the best guess.
        known: something tells it; False for the fallback.
        stated: what is stated tells it.
        limit: what is stated; 0.0 where nothing is.
        shown: what earlier runs of its kind show; 0.0 where there were none.
        gpus: of all its pods.
    """

    seconds: float
    known: bool
    stated: bool
    limit: float = 0.0
    shown: float = 0.0
    gpus: float = 0.0


JobKind = tuple[str, str]
"""Namespace and beginning of the name: jobs of one kind."""
Possible = Callable[[JobKind, Guess, float], float]
"""A possible run time in all, for a kind, a guess and the seconds that the job has run already."""


@dataclass(frozen=True, slots=True)
class LiveJobFacts:
    """A job of the live cluster; ``elapsed`` is None while it waits, ``unmade``: its pods wait for its admission."""

    group: PodGroup
    pods: tuple[Pod, ...]
    job: Job
    guess: Guess
    elapsed: float | None
    unmade: bool = False

    def adopt(self, possible: Possible) -> Adopted:
        """The job with one possible future; a run time is one that is not over yet."""
        elapsed = self.elapsed or 0.0
        left = max(possible(kind_of(self.job), self.guess, elapsed) - elapsed, 1.0)
        started = None if self.elapsed is None else -self.elapsed
        return Adopted(self.job, self.group, self.pods, (left,) * len(self.pods), started, self.unmade)


def live_jobs(
    objects: LiveObjects, now: float, run_times: RunTimes | None = None
) -> tuple[list[LiveJobFacts], ClusterState]:
    """Jobs that have not ended, those that run first, then in order of creation; and a state that has all their pods.

    Args:
        objects: of the cluster.
        now: seconds since 1970.
        run_times: how long jobs of one kind have run, as the scheduler has learnt it.
    """
    members: dict[str, list[Pod]] = {}
    for pod in objects.of("Pod"):
        name = pod_group_name(pod.metadata.annotations, pod.spec)
        if name and not has_ended(pod) and pod.metadata.deletion_timestamp is None:
            members.setdefault(f"{pod.metadata.namespace}/{name}", []).append(pod)
    makers = {(view.job.metadata.namespace, view.pod_group_name): view for view in map(JobView, objects.of("Job"))}
    unmade: dict[str, list[Pod]] = {}
    groups: list[PodGroup] = sorted(objects.of("PodGroup"), key=lambda each: each.key)
    for group in groups:
        if group.key not in members and group.status.phase in (None, "", "Pending", "Inqueue"):
            view = makers.get((group.metadata.namespace, group.metadata.name))
            made = _pods_of(group, now) if view is None else pods_of_job(view, now)
            members[group.key] = unmade[group.key] = made
    state = objects.state(run_times, more=[pod for made in unmade.values() for pod in made])
    session = Session(state.snapshot(), now, 0)
    estimates = RunEstimates(session, learned=True)
    facts = []
    for group in groups:
        pods = members.get(group.key)
        if pods and len(pods) <= MOST_PODS and all(pod.key in state.tasks for pod in pods):
            facts.append(_facts(group, pods, state, estimates, now, unmade=group.key in unmade))
    facts.sort(key=lambda each: (each.elapsed is None, each.group.metadata.creation_timestamp or "", each.group.key))
    return facts, state


def _facts(
    group: PodGroup, pods: list[Pod], state: ClusterState, estimates: RunEstimates, now: float, *, unmade: bool
) -> LiveJobFacts:
    # Pods that run come first, so that they are the gang's minimum.
    pods.sort(key=lambda pod: (not pod.spec.node_name, pod.metadata.name))
    tasks = [state.tasks[pod.key] for pod in pods]
    guess = guess_of(pods, tasks, estimates)
    begun = [task.since or task.created for task in tasks if task.node]
    runs = len(begun) >= max(group.spec.min_member or 1, 1)
    elapsed = max(now - max(begun), 0.0) if runs and begun else None
    return LiveJobFacts(group, tuple(pods), workload_job(group, pods, guess), guess, elapsed, unmade)


def kind_of(job: Job) -> JobKind:
    """Jobs of one user whose names begin alike are of one kind."""
    return job.user, beginning(job.name)


def guess_of(pods: Sequence[Pod], tasks: Sequence[Task], estimates: RunEstimates) -> Guess:
    """How long the job of these pods runs: the longest of them tells it."""
    limit = max((estimates.stated(task) for task in tasks), default=0.0)
    shown = max((estimates.shown(task) for task in tasks), default=0.0)
    seconds = max((estimates.seconds(task) for task in tasks), default=0.0)
    gpus = sum(map(_gpus, pods))
    return Guess(seconds or FALLBACK, bool(seconds), bool(limit) and seconds >= limit, limit, shown, gpus)


def workload_job(group: PodGroup | None, pods: Sequence[Pod], guess: Guess) -> Job:
    """The job of these pods as one of a workload; ``group`` is None where it is not there any more."""
    least = max((group.spec.min_member if group else len(pods)) or 1, 1)
    topology = group.spec.network_topology if group else None
    meta = group.metadata if group else pods[0].metadata
    name = meta.name if group else pod_group_name(meta.annotations, pods[0].spec) or meta.name
    return Job(
        name=name,
        submit=0.0,
        run_seconds=guess.seconds,
        roles=tuple(_role(f"pod-{number}", pod) for number, pod in enumerate(pods)),
        gang=min(least, len(pods)),
        elastic=least < len(pods),
        queue=(group.spec.queue if group else None) or "default",
        user=meta.namespace or "default",
        priority=pods[0].spec.priority or 0,
        estimate=guess.limit or None,
        topology_tier=topology.highest_tier_allowed if topology else None,
        topology_hard=topology is None or topology.mode != "soft",
    )


def _role(name: str, pod: Pod) -> Role:
    amounts = pod_requests(pod.spec)
    more = {key: amount for key, amount in amounts.items() if key not in _OWN_FIELDS}
    return Role(
        name=name,
        cpu_milli=amounts.get("cpu", 0),
        memory_mib=amounts.get("memory", 0) // _MIB,
        gpus=amounts.get(NVIDIA_GPU, 0) // 1000,
        resources=to_wire(more) if more else {},
        node_labels=pod.spec.node_selector or {},
    )


def _gpus(pod: Pod) -> float:
    """GPUs of a pod, parts of them too."""
    amounts = pod_requests(pod.spec)
    shared = amounts.get(GPU_MILLI, 0) / 1000 / WHOLE_GPU * max(amounts.get(GPU_COUNT, 0) // 1000, 1)
    return amounts.get(NVIDIA_GPU, 0) / 1000 + shared


def _pods_of(group: PodGroup, now: float) -> list[Pod]:
    """Pods for a PodGroup whose controller waits for its admission: equal parts of what its gang asks for."""
    count = min(max(group.spec.min_member or 1, 1), MOST_PODS)
    amounts: Mapping[str, int] = scheduled(resource_list(group.spec.min_resources))
    if not amounts:
        return []
    each = {name: -(-amount // count) for name, amount in amounts.items() if name != "pods"}
    requests: dict[str, str | int | float] = {**to_wire(each)}
    spec = PodSpec(
        scheduler_name=SCHEDULER, containers=[Container(name="main", resources=ResourceRequirements(requests=requests))]
    )
    meta = group.metadata
    return [
        Pod(
            metadata=ObjectMeta(
                name=f"{meta.name}-{number}",
                namespace=meta.namespace,
                uid=f"{meta.uid}-{number}",
                creation_timestamp=meta.creation_timestamp or rfc3339(now),
                annotations={GROUP_NAME: meta.name},
            ),
            spec=spec,
            status=PodStatus(phase="Pending"),
        )
        for number in range(count)
    ]


def pods_of_job(view: JobView, now: float) -> list[Pod]:
    """The pods that the Job's controller will make."""
    builder, made = PodBuilder(view, ()), []
    for task in view.tasks:
        for index in range(task.replicas):
            pod = builder.build(task, index)
            meta = pod.metadata
            meta.namespace, meta.uid = view.job.metadata.namespace, f"{view.job.metadata.uid}-{meta.name}"
            meta.creation_timestamp = view.job.metadata.creation_timestamp or rfc3339(now)
            made.append(pod)
            if len(made) > MOST_PODS:
                return []
    return made


def read_objects(values: Iterable[tuple[Mapping[str, Any], str]]) -> LiveObjects:
    """Objects of files, each with the place where it stands (for messages); kinds that do not matter are left out.

    Raises:
        InputError: a field has a wrong type, or there is no node.
    """
    live_objects = LiveObjects()
    for value, where in values:
        kind = find(str(value.get("apiVersion", "")), str(value.get("kind", "")))
        if kind is None or (kind not in KINDS and kind is not JOBS):
            continue
        decoded = decode(kind, dict(value))
        if decoded.type_errors:
            raise InputError(f"{where}: {decoded.type_errors[0].message()}")
        obj: Object = decoded.obj
        if kind.namespaced and not obj.metadata.namespace:
            obj.metadata.namespace = "default"
        if isinstance(obj, Queue) and not obj.status.state:
            obj.status.state = "Open"
        live_objects.add(kind, [obj])
    if not live_objects.of("Node"):
        raise InputError("there are no nodes in these files: give what 'kubectl get nodes,pods,...' prints")
    if all(queue.metadata.name != "default" for queue in live_objects.of("Queue")):
        live_objects.add(QUEUES, [make_queue("default")])
    return live_objects


async def list_objects(client: Client) -> LiveObjects:
    """What the scheduler reads of a cluster.

    Raises:
        ApiError: a list cannot be read; kinds that a cluster may lack are left out.
    """
    live_objects = LiveObjects()
    for kind in (*KINDS, JOBS):
        try:
            listed = await client.list(kind)
        except NotFound:
            if kind not in OPTIONAL and kind is not JOBS:
                raise
            continue
        live_objects.add(kind, listed.items)
    return live_objects
