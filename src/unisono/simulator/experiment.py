"""One simulation as its inputs: files, recordings and settings, from which a world is made."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from msgspec.structs import replace

from unisono import engine
from unisono.api.annotations import RUN_SECONDS
from unisono.api.base import Object
from unisono.api.core import Node, Pod, PriorityClass
from unisono.api.groups.budgets import Budget, PriceList
from unisono.api.groups.quota import FloatingResource
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.groups.topology import HyperNode
from unisono.api.keys import GPU_COUNT, GPU_MILLI, GPU_PRODUCT, NVIDIA_GPU, TASK_SPEC
from unisono.api.kind import Kind
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.api.pod_states import has_ended, scheduled_at
from unisono.api.resources import pod_requests, resource_list, to_wire
from unisono.api.selecting import pod_group_name
from unisono.api.times import parse_time
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import DEFAULT_TEXT, load_config
from unisono.engine.contract.plugin import Plugin
from unisono.errors import ConfigError
from unisono.simulator.abilities import refuse_missing
from unisono.simulator.cluster_files import load_cluster
from unisono.simulator.clusters import Cluster, as_stated, paths_of
from unisono.simulator.files import InputError
from unisono.simulator.metrics.summary import summary
from unisono.simulator.replay import Recording, RecordingError, is_recording
from unisono.simulator.workload.formats import load
from unisono.simulator.workload.job import WHOLE_GPU, Job, Role, largest
from unisono.simulator.world.objects import ObjectMaker
from unisono.simulator.world.outcome import WAITING, Run
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.settings import refuse_unused as unused
from unisono.simulator.world.world import Progress, World, fill

# Jobs and nodes of a recording, as a workload and a cluster: what was submitted and how long it ran.
#
# A job is a PodGroup with its pods, or a pod without one. It was submitted when its PodGroup was created, and ran from
# the latest start of its pods until the last one ended. What had not ended when the recording ended, and what never
# started, is censored: its run time is assumed (`Job.censored`), so that a policy is not judged only on what an earlier
# policy let start.

_MIB = 1 << 20


@dataclass(slots=True)
class _Life:
    """What was seen of a pod; times are seconds since the epoch."""

    pod: Pod
    started: float | None = None
    ended: float | None = None


@dataclass(slots=True)
class History:
    """Everything that a recording tells of, whether it was still there at the end or not."""

    nodes: dict[str, Node] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    hyper_nodes: dict[str, HyperNode] = field(default_factory=dict)
    floating: dict[str, FloatingResource] = field(default_factory=dict)
    budgets: dict[str, Budget] = field(default_factory=dict)
    price_lists: dict[str, PriceList] = field(default_factory=dict)
    groups: dict[str, PodGroup] = field(default_factory=dict)
    pods: dict[str, _Life] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)
    end: float = 0.0

    def take(self, event: str, obj: Object, now: float) -> None:
        """One object as it was seen at ``now``."""
        if isinstance(obj, Node):
            self.nodes[obj.metadata.name] = obj
        elif isinstance(obj, Queue):
            self.queues[obj.metadata.name] = obj
        elif isinstance(obj, HyperNode):
            self.hyper_nodes[obj.metadata.name] = obj
        elif isinstance(obj, FloatingResource):
            self.floating[obj.metadata.name] = obj
        elif isinstance(obj, Budget):  # as it was at first: the simulation counts itself
            self.budgets.setdefault(obj.metadata.name, obj)
        elif isinstance(obj, PriceList):
            self.price_lists[obj.metadata.name] = obj
        elif isinstance(obj, PriorityClass):
            self.priorities[obj.metadata.name] = obj.value or 0
        elif isinstance(obj, PodGroup):
            self.groups[f"{obj.key}/{obj.metadata.uid}"] = obj
        elif isinstance(obj, Pod):
            life = self.pods.setdefault(obj.metadata.uid or obj.key, _Life(obj))
            life.pod = obj
            life.started = life.started or _started(obj)
            if life.ended is None:
                life.ended = _ended(obj) or (now if event == "DELETED" and life.started else None)


def read_history(path: Path) -> History:
    """Read a recording.

    Raises:
        RecordingError: a line cannot be understood.
    """
    recording, history = Recording(path), History()

    def seen(event: str, kind: Kind[Any], obj: Object) -> None:
        history.take(event, obj, recording.time)

    recording.seen = seen
    for _ in recording.cycles():
        pass
    history.end = recording.time
    return history


def cluster_of(history: History, path: Path) -> Cluster:
    """All nodes that were seen, with the queues and HyperNodes."""
    if not history.nodes:
        raise RecordingError(f"{path}: the recording has no nodes")
    for queue in history.queues.values():
        queue.status.state = queue.status.state or "Open"
    hyper_nodes = tuple(history.hyper_nodes.values())
    return Cluster(
        tuple(node for _, node in sorted(history.nodes.items())),
        tuple(queue for _, queue in sorted(history.queues.items())),
        hyper_nodes,
        paths_of(hyper_nodes, history.nodes),
        floating=tuple(as_stated(each) for each in history.floating.values()),
        budgets=tuple(history.budgets.values()),
        price_lists=tuple(history.price_lists.values()),
    )


def jobs_of(history: History) -> list[Job]:
    """Jobs in order of submission; the first one comes at 0.

    Of what had not started, the run time is what its owner states; else the median of what ended in its queue, or at
    all. Without any start there is nothing to assume it from, and no job is answered.
    """
    members: dict[str, list[_Life]] = {}
    for life in history.pods.values():
        meta = life.pod.metadata
        group = pod_group_name(meta.annotations, life.pod.spec)
        owner = f"{meta.namespace}/{group}" if group else f"pod {life.pod.key}/{meta.uid}"
        members.setdefault(owner, []).append(life)
    by_key: dict[str, PodGroup] = {group.key: group for group in history.groups.values()}
    for key, waiting in by_key.items():
        if waiting.status.phase in (None, "", "Pending", "Inqueue"):
            members.setdefault(key, [])
    submissions = [
        job
        for owner, lives in sorted(members.items())
        if (job := _job(owner, lives, by_key.get(owner), history)) is not None
    ]
    if all(job.run_seconds is None for _, job in submissions):
        return []
    first = min(at for at, _ in submissions)
    assumed = _assumed([job for _, job in submissions])
    jobs = [
        replace(job, submit=at - first, run_seconds=assumed(job) if job.run_seconds is None else job.run_seconds)
        for at, job in submissions
    ]
    return sorted(jobs, key=lambda job: (job.submit, job.name))


def _assumed(jobs: Sequence[Job]) -> Callable[[Job], float]:
    """Run times of jobs that did not start."""
    by_queue: dict[str, list[float]] = {}
    for job in jobs:
        if job.run_seconds is not None:
            by_queue.setdefault(job.queue, []).append(job.run_seconds)
    medians = {queue: median(seconds) for queue, seconds in by_queue.items()}
    usual = median(seconds for each in by_queue.values() for seconds in each)
    return lambda job: job.estimate or medians.get(job.queue, usual)


def _job(owner: str, lives: list[_Life], group: PodGroup | None, history: History) -> tuple[float, Job] | None:
    """When it was submitted, and the job; its run time is None when it did not start."""
    started = [life.started for life in lives if life.started is not None]
    if group is None and not lives:
        return None
    # Pods that were made again after an eviction or a failure take the place of those before them.
    size = len({life.pod.metadata.name for life in lives})
    latest = sorted(lives, key=lambda life: life.started or 0.0)[-size:] if lives else []
    roles = _roles(latest) if latest else _roles_of(group)
    if not roles:
        return None
    meta = group.metadata if group is not None else lives[0].pod.metadata
    created = parse_time(meta.creation_timestamp) if meta.creation_timestamp else min(started, default=history.end)
    priority = lives[0].pod.spec.priority if lives else None
    estimate = _estimate(group, lives)
    censored, run_seconds = not started, None
    if started:
        begun = max(life.started or 0.0 for life in latest)
        ends = [life.ended for life in latest if life.ended is not None]
        censored = len(ends) < len(latest)
        run_seconds = max((history.end if censored else max(ends)) - begun, 0.0)
        if censored and estimate is not None:
            run_seconds = max(run_seconds, estimate)
    least = group.spec.min_member if group is not None else 1
    namespace = meta.namespace or "default"
    pods = sum(role.count for role in roles)
    return created, Job(
        name=f"{namespace}.{meta.name}" if group is not None else f"{namespace}.{meta.name}.{(meta.uid or '')[:8]}",
        submit=0.0,
        run_seconds=run_seconds,
        roles=roles,
        gang=min(max(least or 1, 1), pods),
        queue=(group.spec.queue if group is not None else None) or "default",
        user=namespace,
        priority=priority or history.priorities.get(_class(group), 0),
        estimate=estimate,
        censored=censored,
    )


def _roles_of(group: PodGroup | None) -> tuple[Role, ...]:
    """Pods of a gang that was never let in, so that none was made: equal shares of its ``minResources``."""
    if group is None or not group.spec.min_member:
        return ()
    amounts = {
        name.removeprefix("requests."): amount
        for name, amount in resource_list(group.spec.min_resources).items()
        if not name.startswith(("limits.", "count/")) and name != "pods"
    }
    count = group.spec.min_member
    return (_role("worker", count, {name: -(-amount // count) for name, amount in amounts.items()}, {}),)


def _class(group: PodGroup | None) -> str:
    return (group.spec.priority_class_name or "") if group is not None else ""


def _estimate(group: PodGroup | None, lives: list[_Life]) -> float | None:
    notes: list[Mapping[str, str]] = [life.pod.metadata.annotations or {} for life in lives[:1]]
    if group is not None:
        notes.append(group.metadata.annotations or {})
    for each in notes:
        try:
            seconds = float(each.get(RUN_SECONDS, ""))
        except ValueError:
            continue
        if 0 < seconds < 1e10:
            return seconds
    return None


def _roles(lives: list[_Life]) -> tuple[Role, ...]:
    """Pods with the same role and the same requests together."""
    counts: Counter[tuple[str, tuple[tuple[str, int], ...], tuple[tuple[str, str], ...]]] = Counter()
    for life in lives:
        notes, labels = life.pod.metadata.annotations or {}, life.pod.metadata.labels or {}
        name = notes.get(TASK_SPEC) or labels.get(TASK_SPEC) or "worker"
        requests = tuple(sorted(pod_requests(life.pod.spec).items()))
        counts[name, requests, tuple(sorted((life.pod.spec.node_selector or {}).items()))] += 1
    roles, names = [], Counter[str]()
    for (name, requests, selector), count in sorted(counts.items()):
        names[name] += 1
        unique = name if names[name] == 1 else f"{name}-{names[name]}"
        roles.append(_role(unique, count, dict(requests), dict(selector)))
    return tuple(roles)


def _role(name: str, count: int, amounts: dict[str, int], node_labels: dict[str, str]) -> Role:
    """Equal pods that each ask for these amounts, in engine units."""
    milli = amounts.get(GPU_MILLI, WHOLE_GPU * 1000) // 1000
    shared = amounts.get(GPU_COUNT, 1000 if milli < WHOLE_GPU or GPU_MILLI in amounts else 0) // 1000
    gpus = amounts.get(NVIDIA_GPU, 0) // 1000
    own = {GPU_MILLI, GPU_COUNT, NVIDIA_GPU, "cpu", "memory", "pods"}
    return Role(
        name=name,
        count=count,
        cpu_milli=amounts.get("cpu", 0),
        memory_mib=-(-amounts.get("memory", 0) // _MIB),
        gpus=gpus or shared,
        gpu_milli=milli if shared and not gpus else WHOLE_GPU,
        resources=to_wire({name: amount for name, amount in amounts.items() if name not in own}),
        node_labels=node_labels,
    )


def _started(pod: Pod) -> float | None:
    if not pod.spec.node_name:
        return None
    return parse_time(at) if (at := scheduled_at(pod)) else None


def _ended(pod: Pod) -> float | None:
    if not has_ended(pod):
        return None
    times = [
        status.state.terminated.finished_at
        for status in pod.status.container_statuses or ()
        if status.state.terminated is not None and status.state.terminated.finished_at
    ]
    return max((parse_time(time) for time in times), default=None)


_OF_ONE: Mapping[str, Any] = {
    **{"name": "", "submit": 0.0, "run_seconds": None, "estimate": None, "deadline": None, "job_class": ""},
    **{"checkpoint": None, "restart_overhead": 0.0, "max_retries": None, "censored": False},
}
"""What may differ between jobs of which one fits where the other does."""
_MOST_SHAPES = 100
"""So many kinds of waiting jobs are tried on the empty cluster, those with most jobs."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """What a run is a function of.

    Attributes:
        name: for people.
        jobs, cluster, config, settings: see their modules.
        plugins: plug-ins by name, looked up before the registry.
        about: what the result says of its inputs.
    """

    jobs: list[Job]
    cluster: Cluster
    config: SchedulerConfig
    settings: Settings
    plugins: Mapping[str, type[Plugin]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def run(self, progress: Progress | None = None) -> Run:
        """Simulate."""
        world = World(self.cluster, self.jobs, self.config, self.settings, plugins=self.plugins, progress=progress)
        return world.run()

    def result(self, run: Run) -> dict[str, Any]:
        """The metrics, with what they are of, and jobs that would not start even on the empty cluster."""
        metrics = summary(run, **self.about)
        hopeless = self._hopeless(run)
        return {**metrics, "hopeless": hopeless} if hopeless else metrics

    def _hopeless(self, run: Run) -> list[dict[str, Any]]:
        """Jobs that never started and cannot, alike ones together: an example, how many, and why in words."""
        alike: dict[bytes, list[Job]] = {}
        for outcome in run.outcomes:
            if outcome.state == WAITING and outcome.started is None:
                alike.setdefault(msgspec.json.encode(replace(outcome.job, **_OF_ONE)), []).append(outcome.job)
        shared = any(role.gpu_milli < WHOLE_GPU for job in self.jobs for role in job.roles)
        maker, state, reports = (
            ObjectMaker(shared=shared, run_times="none", epoch=self.settings.epoch),
            ClusterState(),
            [],
        )
        fill(state, run.cluster, self.jobs)
        for jobs in sorted(alike.values(), key=len, reverse=True)[:_MOST_SHAPES]:
            job = replace(jobs[0], submit=0.0)
            group, roles = maker.group(job, 0), [role for role in job.roles for _ in range(role.count)]
            pods = [maker.pod(job, role, f"{job.name}-{at}", 0.0) for at, role in enumerate(roles)]
            objects: list[tuple[Kind[Any], Object]] = [(POD_GROUPS, group), *((PODS, pod) for pod in pods)]
            for kind, obj in objects:
                state.apply("ADDED", kind, obj)
            decided = engine.run(
                state.snapshot(),
                self.config,
                self.settings.epoch,
                self.settings.seed,
                plugins=self.plugins,
                advice=False,
            )
            if len(decided.binds) < job.minimum:
                verdict = decided.verdicts.get(group.key)
                why = verdict.message.rstrip(".") if verdict is not None else "the configuration places nothing"
                reports.append({"job": job.name, "jobs": len(jobs), "why": why})
            for kind, obj in reversed(objects):
                state.apply("DELETED", kind, obj)
        return reports


def read_experiment(
    workload: Path,
    cluster: Path,
    config: Path | None,
    settings: Settings,
    *,
    form: str | None = None,
    limit: int | None = None,
) -> Experiment:
    """Read the files of an experiment; ``limit`` takes the first jobs only.

    Raises:
        WorkloadError, ClusterError, ConfigError: a file breaks a rule; the message names the place.
    """
    where = cluster_from(cluster)
    jobs = workload_from(workload, form, where)[:limit]
    text = config_text(config)
    about = {
        "workload": workload.name,
        "cluster": cluster.name,
        "config": "default" if config is None else config.name,
        "configHash": hashlib.sha256(text.encode()).hexdigest()[:12],
        "seed": settings.seed,
    }
    name = "default configuration" if config is None else str(config)
    scheduler = load_config(text, name)
    refuse_missing(scheduler, name)
    return Experiment(jobs, where, scheduler, settings, about=about)


def refuse_unused(options: Mapping[str, Any], paths: Sequence[Path]) -> None:
    """Refuse fields of settings that name a GPU model, a tier or a node that none of the clusters has.

    Raises:
        InputError: it says which, and what there is.
    """
    if options.keys().isdisjoint(("model_speed", "topology_slowdown", "failures")):
        return
    clusters = [cluster_from(path) for path in paths]
    labels = [node.metadata.labels or {} for cluster in clusters for node in cluster.nodes]
    models = {each[GPU_PRODUCT] for each in labels if GPU_PRODUCT in each}
    tiers = max((len(path) for cluster in clusters for path in cluster.paths.values()), default=0)
    unused(Settings(**options), models, tiers)


def cluster_from(path: Path) -> Cluster:
    """A cluster from its description, or from a recording."""
    if is_recording(path):
        return cluster_of(read_history(path), path)
    return load_cluster(path)


def workload_from(path: Path, form: str | None, cluster: Cluster) -> list[Job]:
    """Jobs from a workload, or from a recording."""
    if form is None and is_recording(path):
        jobs = jobs_of(read_history(path))
        if not jobs:
            raise InputError(f"{path}: no job has started in this recording")
        return jobs
    return load(path, form, largest(cluster))


def config_text(file: Path | None) -> str:
    """A scheduler configuration as text; that of the running scheduler without a file."""
    if file is None:
        return DEFAULT_TEXT
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the scheduler configuration cannot be read: {error}", file=str(file)) from None
