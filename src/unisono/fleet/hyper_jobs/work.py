"""The parts of a HyperJob as one gang on the hub: its PodGroup, and pods that stand for each part (pure).

Each part is a sub-group with a hard bound of its own, at the tier ``cluster`` or below; the gang is placed whole or
not at all. ``clusterNames`` is a required node affinity of the part's pods.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from unisono.api.annotations import GANG
from unisono.api.base import LabelSelector, LabelSelectorRequirement, Object, ObjectMeta
from unisono.api.core import Pod
from unisono.api.groups.batch import HyperJob, Job
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, SubGroupPolicySpec
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.keys import GROUP_NAME, JOB_NAME
from unisono.api.kind_families import HYPER_JOBS
from unisono.api.promised_machines import PromisedMachines
from unisono.controllers.hyperjob.decide import BY_REPLICATED_JOB, split_of
from unisono.controllers.job.pods import pod_group_for, smallest_gang
from unisono.controllers.job.view import JobView
from unisono.controllers.pod_groups import pod_group_of_job, sum_usage
from unisono.errors import UnisonoError
from unisono.fleet.jobs.copies import Placement
from unisono.fleet.jobs.translation import CLUSTER_TIER_NAME
from unisono.fleet.jobs.work import Work, bound_within, keeping_to

# Where the parts of a HyperJob are: one record on the HyperJob, written in one piece before any member is (pure).
#
# A part is one of the HyperJob's jobs. The record counts dispatches and releases; a part that was sent carries the
# number
# of its dispatch, as its copy does, and the highest one wins. Parts that were sent after the record was opened last are
# held back: their copies have no pods.

_MOST_NUMBER = 10**9


class _Sent(msgspec.Struct, frozen=True, omit_defaults=True):
    """On the wire: a part in its member."""

    cluster: str
    number: int
    uid: str
    machines: PromisedMachines | None = None


class _Wire(msgspec.Struct, frozen=True, omit_defaults=True):
    number: int = 0
    opened: int = 0
    started: int = 0
    since: float = 0.0
    parts: dict[str, _Sent] = {}


@dataclass(frozen=True, slots=True)
class PlacedPart:
    """Where a part is.

    Attributes:
        cluster: the member.
        generation: of its dispatch.
        uid: of the job that is the part; another job of its name is another part.
        machines: those that are to come there for it; None where it was sent to room.
    """

    cluster: str
    generation: int
    uid: str
    machines: PromisedMachines | None = None


@dataclass(frozen=True, slots=True)
class GangRecord:
    """Where all parts are.

    Attributes:
        number: dispatches and releases so far.
        opened: parts of dispatches up to this one may start; later ones are held back.
        started: parts of dispatches up to this one have been seen running.
        since: seconds since 1970 of the latest dispatch, opening or release.
        parts: parts by name of their job; those that wait are absent.
    """

    number: int = 0
    opened: int = 0
    started: int = 0
    since: float = 0.0
    parts: Mapping[str, PlacedPart] = field(default_factory=dict)

    def placement(self, part: str, uid: str) -> Placement:
        """Where a part belongs; ``uid`` is its job's."""
        place = self.parts.get(part)
        if place is None or place.uid != uid:
            return Placement("", self.number)
        return Placement(place.cluster, place.generation)

    def is_held(self, part: str) -> bool:
        """Whether the part is reserved and not open yet."""
        place = self.parts.get(part)
        return place is not None and place.generation > self.opened

    def waits(self, part: str) -> bool:
        """Whether the part was sent for machines, and its gang has not started."""
        place = self.parts.get(part)
        return place is not None and place.machines is not None and place.generation > self.started

    def sent(
        self, places: Mapping[str, tuple[str, str]], now: float, machines: Mapping[str, PromisedMachines] | None = None
    ) -> GangRecord:
        """The next dispatch.

        Args:
            places: part to member and uid of its job.
            now: seconds since 1970.
            machines: those that parts wait for, with the number of this dispatch. Parts that wait for none have the
                next number: they are opened when the machines of the others have come.
        """
        coming = machines or {}
        number = self.number + 1
        top = number + 1 if coming and places.keys() - coming.keys() else number
        parts = {
            name: PlacedPart(cluster, number if name in coming else top, uid, coming.get(name))
            for name, (cluster, uid) in places.items()
        }
        return replace(self, number=top, since=now, parts={**self.parts, **parts})

    def open(self, now: float, number: int | None = None) -> GangRecord:
        """What was sent up to the dispatch of this number may start; without one, all that was sent."""
        return replace(self, opened=self.number if number is None else number, since=now)

    def start(self) -> GangRecord:
        """All that was opened runs."""
        return replace(self, started=self.opened)

    def without(self, parts: Collection[str], now: float, *, beyond: int = 0) -> GangRecord:
        """These parts wait again; ``beyond``: the highest number that was seen anywhere."""
        left = {name: place for name, place in self.parts.items() if name not in parts}
        return replace(self, number=max(self.number, beyond) + 1, since=now, parts=left)

    def patch(self, version: str | None) -> dict[str, Any]:
        """The merge patch that writes it down, if the HyperJob is still at ``version``."""
        parts = {
            name: _Sent(each.cluster, each.generation, each.uid, each.machines) for name, each in self.parts.items()
        }
        wire = _Wire(self.number, self.opened, self.started, self.since, parts)
        return {"metadata": {"resourceVersion": version, "annotations": {GANG: msgspec.json.encode(wire).decode()}}}


def record_of(hyper_job: Object) -> GangRecord:
    """What is written on a HyperJob; an empty record where that cannot be read."""
    text = (hyper_job.metadata.annotations or {}).get(GANG)
    if not text:
        return GangRecord()
    try:
        wire = msgspec.json.decode(text, type=_Wire)
    except (msgspec.DecodeError, RecursionError):
        return GangRecord()
    numbers = [wire.number, wire.opened, wire.started, *(each.number for each in wire.parts.values())]
    if not all(0 <= number <= _MOST_NUMBER for number in numbers):
        return GangRecord()
    parts = {name: PlacedPart(each.cluster, each.number, each.uid, each.machines) for name, each in wire.parts.items()}
    return GangRecord(wire.number, wire.opened, wire.started, wire.since, parts)


# Environment by which the parts of a HyperJob find each other across clusters (pure).

SVC: Final = "svc"
"""The job plug-in that gives the pods of a job names."""
_ASKED: Final = re.compile(r"\$\((HYPERJOB_HOST_[A-Z0-9_]{1,200})\)")
_NO_VARIABLE: Final = re.compile(r"[^A-Z0-9]")
MOST_PARTS: Final = 256
"""Gangs of more parts get no lists of them: every container would carry the lists."""


def host_variable(task: str) -> str:
    """The variable that has the name of the first pod of a task, in whichever part it is."""
    return f"HYPERJOB_HOST_{_NO_VARIABLE.sub('_', task.upper())}"


def part_environment(
    name: str, parts: Mapping[str, Job], record: GangRecord, ids: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables of one part.

    Args:
        name: of the part's job.
        parts: all parts that have not ended, by name; their order is that of the names' numbers.
        record: where they are.
        ids: of members in whose names those of all others may be looked up: what they are called there.
    """
    order = sorted(parts, key=_by_number)
    pods = {each: sum(task.replicas for task in JobView(parts[each]).tasks) for each in order}
    index = order.index(name)
    clusters = {each: record.placement(each, parts[each].metadata.uid or "").cluster for each in order}
    names = {each: (ids or {}).get(cluster, "") for each, cluster in clusters.items()}
    variables = {
        "HYPERJOB_PART": name,
        "HYPERJOB_PART_INDEX": str(index),
        "HYPERJOB_PART_COUNT": str(len(order)),
        "HYPERJOB_WORLD_SIZE": str(sum(pods.values())),
        "HYPERJOB_RANK_OFFSET": str(sum(pods[each] for each in order[:index])),
        **_hosts_asked_for(parts[name], [(parts[each], names[each]) for each in order]),
    }
    if len(order) > MOST_PARTS:
        return variables
    return {
        **variables,
        "HYPERJOB_PARTS": ",".join(order),
        "HYPERJOB_CLUSTERS": ",".join(clusters.values()),
        "HYPERJOB_HOSTS": ",".join(_first_host(parts[each], names[each]) for each in order),
    }


def _hosts_asked_for(job: Job, parts: Sequence[tuple[Job, str]]) -> dict[str, str]:
    """The variables to which containers of a part refer that have names of first pods of tasks."""
    asked = set(_ASKED.findall(msgspec.json.encode(job.spec).decode()))
    variables: dict[str, str] = {}
    for part, cluster_id in parts if asked else ():
        for task in JobView(part).tasks:
            variable = host_variable(task.name)
            if task.replicas and variable in asked:
                variables.setdefault(variable, _host(part, task.host(0), cluster_id))
    return variables


def _first_host(job: Job, cluster_id: str) -> str:
    return next((_host(job, task.host(0), cluster_id) for task in JobView(job).tasks if task.replicas), "")


def has_names(job: Job) -> bool:
    """Whether the pods of a part have names, by a Service of the part's own name."""
    return SVC in (job.spec.plugins or {})


def _host(job: Job, host: str, cluster_id: str) -> str:
    """The name of a pod as all clusters know it, where its Service is exported; else as its own does."""
    if not cluster_id or not has_names(job):
        return host
    pod, _, service = host.partition(".")
    return f"{pod}.{cluster_id}.{service}.{job.metadata.namespace}.svc.clusterset.local"


def _by_number(name: str) -> tuple[str, int]:
    head, _, number = name.rpartition("-")
    return head, int(number) if number.isdecimal() else 0


Priorities = Callable[[str | None], int]
_CLUSTER_BOUND = NetworkTopologySpec(mode="hard", highest_tier_name=CLUSTER_TIER_NAME)


class GangError(UnisonoError):
    """The parts cannot be one gang; the message says what to change."""


def gang_name(hyper_job: HyperJob) -> str:
    """Name of the PodGroup that stands for a HyperJob on the hub."""
    return f"{hyper_job.metadata.name}-{hyper_job.metadata.uid}"


def gang_group(hyper_job: HyperJob, parts: Sequence[Job], priority: Priorities) -> PodGroup:
    """The PodGroup of all parts together.

    Args:
        hyper_job: the HyperJob.
        parts: jobs of it that have not ended, one at least.
        priority: value of a priority class.

    Raises:
        GangError: the parts name different queues.
    """
    views = [JobView(job) for job in parts]
    queues = sorted({view.queue for view in views})
    if len(queues) > 1:
        raise GangError(
            f"its parts name the queues {', '.join(queues)}, and a gang waits in one: give all templates the same queue"
        )
    counts = [smallest_gang(view, priority) for view in views]
    used = (
        (task.template.spec, taken[task.name]) for view, taken in zip(views, counts, strict=True) for task in view.tasks
    )
    classes = {view.spec.priority_class_name for view in views}
    spec = PodGroupSpec(
        min_member=sum(view.min_available for view in views),
        queue=queues[0],
        priority_class_name=max(classes, key=lambda name: (priority(name), name or "")),
        min_resources={**sum_usage(used)},
        network_topology=_CLUSTER_BOUND if hyper_job.spec.max_domains == 1 else None,
        sub_group_policy=_policies([(job, view) for job, view in zip(parts, views, strict=True)], priority),
    )
    return pod_group_of_job(HYPER_JOBS, hyper_job, gang_name(hyper_job), spec)


def _policies(parts: Sequence[tuple[Job, JobView]], priority: Priorities) -> list[SubGroupPolicySpec]:
    """One policy for all parts that are alike in size and bound: pods of one job are one sub-group."""
    alike: dict[bytes, list[str]] = defaultdict(list)
    shapes: dict[bytes, tuple[int, NetworkTopologySpec]] = {}
    for job, view in parts:
        bound = bound_within(pod_group_for(view, view.version, priority).spec.network_topology)
        key = msgspec.json.encode([view.min_available, bound])
        shapes[key] = view.min_available, bound
        alike[key].append(job.metadata.name)
    return [
        SubGroupPolicySpec(
            name=f"parts-{number}",
            label_selector=LabelSelector(
                match_expressions=[LabelSelectorRequirement(key=JOB_NAME, operator="In", values=sorted(names))]
            ),
            match_label_keys=[JOB_NAME],
            sub_group_size=max(1, shapes[key][0]),
            min_sub_groups=len(names),
            network_topology=shapes[key][1],
        )
        for number, (key, names) in enumerate(sorted(alike.items(), key=lambda item: min(item[1])))
    ]


def part_work(work: Work, group: str, clusters: Sequence[str] | None) -> Work:
    """What stands for one part: its pods belong to the gang's PodGroup and keep to the clusters that may take them.

    Args:
        work: what would stand for the job alone.
        group: name of the gang's PodGroup.
        clusters: ``clusterNames`` of the part; None or empty for no bound.
    """
    meta = ObjectMeta(name=group, namespace=work.group.metadata.namespace)
    named = PodGroup(metadata=meta, spec=PodGroupSpec(min_member=work.group.spec.min_member))
    return Work(named, tuple(_pod(pod, group, clusters or ()) for pod in work.pods))


def _pod(pod: Pod, group: str, clusters: Sequence[str]) -> Pod:
    meta = msgspec.structs.replace(pod.metadata, annotations={**(pod.metadata.annotations or {}), GROUP_NAME: group})
    spec = keeping_to(pod.spec, clusters) if clusters else pod.spec
    return msgspec.structs.replace(pod, metadata=meta, spec=spec)


def clusters_of(hyper_job: HyperJob) -> Mapping[str, tuple[str, ...]]:
    """``clusterNames`` by name of the replicated job, of those that have any."""
    return {each.name: tuple(each.cluster_names) for each in hyper_job.spec.replicated_jobs or () if each.cluster_names}


def bound_of(hyper_job: HyperJob, job: Object, record: GangRecord) -> tuple[str, ...]:
    """Clusters that may have a part; empty for all.

    As long as all parts wait, one of a divided job belongs where its share was measured. Alone it may go anywhere.
    """
    replicated = (job.metadata.labels or {}).get(BY_REPLICATED_JOB, "")
    split = split_of(hyper_job).get(replicated, 1)
    number = job.metadata.name.rpartition("-")[2]
    if not record.parts and not isinstance(split, int) and number.isdecimal() and int(number) < len(split):
        return (split[int(number)].cluster,)
    return clusters_of(hyper_job).get(replicated, ())
