"""Where honoured words are read, where each kind hands its metadata to, and values of words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from unisono.api import annotations as ours
from unisono.api import keys, kind_families
from unisono.api.annotations import EVICTABLE, KUEUE_QUEUES, RELOCATE_AFTER, SERVE
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS, NAMESPACES, POD_GROUPS, PODS, QUEUES
from unisono.api.numa import POLICIES
from unisono.api.pod_states import LEVELS
from unisono.api.queues import LEVELS as EVICTION_LEVELS
from unisono.api.times import duration_or_none, is_time
from unisono.api.validation.scheduling import amount_or_none
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.others_words import WORDS, Goal
from unisono.jobkinds.paths import walk
from unisono.jobkinds.registry import FAMILIES

# Where honoured words are read, where each kind hands its metadata, and what to tell of words that arrive nowhere.
#
# A word that a job's pods must have says nothing on a Deployment, whose controller hands none of its own annotations to
# the pods; one of the PodGroup says nothing on the template of a pod whose PodGroup is made of its job.

Part = Literal["annotations", "labels"]
READ_AT: Final = {word.key: word.read_at for word in WORDS if word.read_at}

_INHERITED: Final = frozenset(
    (keys.PREEMPTABLE, keys.COOLDOWN_TIME, keys.REVOCABLE_ZONE, keys.JDB_MIN_AVAILABLE, keys.JDB_MAX_UNAVAILABLE)
)
"""What pods and PodGroups take over from their job, or from the pod that they are made for."""
_INSTEAD: Final[Mapping[Goal, str]] = {
    "member": "the pods are in the PodGroup that is made for them",
    "owner": "it counts on Deployments, StatefulSets and other controllers of Kubernetes; write how many pods the gang "
    "needs in the spec",
    "bound": "write networkTopology in the spec of the Job or of the PodGroup",
    "group": "it counts on jobs and PodGroups",
    "JobSet": "it counts on JobSets, and on the templates of their Jobs",
    "Queue": "it counts on Queues",
    "Node": "it counts on Nodes: choose nodes by a node selector",
    "pod": "it counts on pods, and on the templates of pods",
    "Ray": "it counts on Ray's clusters, jobs and services, as a label",
}
_OTHER_NAMES: Final = {
    keys.NETWORK_TOPOLOGY_HIGHEST_TIER: keys.NETWORK_TOPOLOGY_HIGHEST_TIER_ALLOWED,
    keys.NETWORK_TOPOLOGY_HIGHEST_TIER_ALLOWED: keys.NETWORK_TOPOLOGY_HIGHEST_TIER,
}
"""The same word where Ray's kinds have it, and where the others do."""

Hands = Callable[[str], frozenset[Goal]]
"""Where a key of some metadata arrives."""


def _nowhere(_: str) -> frozenset[Goal]:
    return frozenset()


def _all(*goals: Goal) -> Hands:
    unique_goals = frozenset(goals)
    return lambda _: unique_goals


def _only(those: frozenset[str], *goals: Goal) -> Hands:
    unique_goals = frozenset(goals)
    return lambda key: unique_goals if key in those else frozenset()


def _volcanos(*goals: Goal) -> Hands:
    unique_goals = frozenset(goals)
    return lambda key: unique_goals if key.startswith("volcano.sh/") else frozenset()


def _both(*hands: Hands) -> Hands:
    return lambda key: frozenset().union(*(each(key) for each in hands))


@dataclass(frozen=True, slots=True)
class Handing:
    """Where the annotations and the labels of one place arrive."""

    annotations: Hands = _nowhere
    labels: Hands = _nowhere


_TO_PODS: Final = _only(_INHERITED, "pod")
_LABELS_TO_PODS: Final = _only(frozenset((keys.PREEMPTABLE, keys.COOLDOWN_TIME)), "pod label")
_NOWHERE: Final = Handing()
_JOB: Final = Handing(_both(_all("group"), _TO_PODS), _LABELS_TO_PODS)
_BOUND_JOB: Final = Handing(_both(_all("group", "bound"), _TO_PODS), _LABELS_TO_PODS)
_JOB_SET: Final = Handing(_both(_all("group", "bound", "JobSet"), _TO_PODS))
_RAY: Final = Handing(_both(_all("group"), _TO_PODS), _all("Ray"))
_HYPER: Final = Handing(_both(_TO_PODS, _only(_INHERITED, "group")))
_OWNER: Final = Handing(_both(_volcanos("group"), _all("owner")))
_POD_OF_GANG: Final = Handing(_all("pod"), _all("pod label"))
_POD_ALONE: Final = Handing(_both(_all("pod", "member", "bound"), _only(_INHERITED, "group")), _all("pod label"))
_OBJECTS: Final[Mapping[Kind[Any], Handing]] = {
    JOBS: _JOB,
    kind_families.HYPER_JOBS: _HYPER,
    POD_GROUPS: Handing(_all("group", "PodGroup"), _only(frozenset((keys.PREEMPTABLE,)), "PodGroup")),
    kind_families.WORKLOAD_POD_GROUPS: Handing(_volcanos("group")),
    kind_families.COMPOSITE_POD_GROUPS: Handing(_volcanos("group")),
    **dict.fromkeys(kind_families.KUBEFLOW_KINDS, _BOUND_JOB),
    **dict.fromkeys((kind_families.JOB_SETS, kind_families.TRAIN_JOBS), _JOB_SET),
    **dict.fromkeys((kind_families.RAY_CLUSTERS, kind_families.RAY_JOBS, kind_families.RAY_SERVICES), _RAY),
    PODS: _POD_ALONE,
}
_MADE_OF: Final[Mapping[Kind[Any], tuple[Handing, ...]]] = {
    kind_families.CRON_JOBS: (_JOB,),
    kind_families.BATCH_CRON_JOBS: (_OWNER,),
    kind_families.JOB_SETS: (Handing(_all("pod", "JobSet")),),
    **dict.fromkeys(
        (kind_families.TRAIN_JOBS, kind_families.TRAINING_RUNTIMES, kind_families.CLUSTER_TRAINING_RUNTIMES),
        (_JOB_SET, Handing(_all("pod", "JobSet"))),
    ),
}
"""What becomes of the metadata of what a kind makes between itself and its pods, by the order of `JobKind.inner`."""
_COPIES_TO_PODS: Final = frozenset(("DaskJob", "DaskCluster", "DaskWorkerGroup"))
"""Kinds of other programs whose controllers write their objects' metadata on the pods."""
_HANDS_NOTHING: Final = (kind_families.BATCH_CRON_JOBS, kind_families.KNATIVE_SERVICES)
"""Of Kubernetes' workloads: those whose own annotations reach no controller of pods."""
_READ_ON: Final[Mapping[Kind[Any], frozenset[str]]] = {
    QUEUES: frozenset(key for key, at in READ_AT.items() if at == {"Queue"}),
    NAMESPACES: frozenset((keys.POD_QUEUE,)),
}
"""Of kinds that are no jobs, and on which people write words of jobs."""


def arrives(kind: JobKind, above: str, part: Part, key: str) -> bool:
    """Whether a word is read that stands on an object of a kind, or on a template in it.

    Args:
        kind: of the object.
        above: path of the template; empty for the object itself.
        part: labels or annotations.
        key: the word.
    """
    handing = _handing(kind, above)
    return bool(READ_AT[key] & (handing.annotations if part == "annotations" else handing.labels)(key))


def _handing(kind: JobKind, above: str) -> Handing:
    foreign = kind.kind.kind in _COPIES_TO_PODS
    if above in kind.inner:
        made = _MADE_OF.get(kind.kind, ())
        at = kind.inner.index(above)
        return made[at] if at < len(made) else _POD_ALONE if foreign else _NOWHERE
    if above:
        # Who makes no PodGroup of its own leaves it to the first pod.
        return _POD_OF_GANG if _makes_groups(kind) else _POD_ALONE
    if kind.kind in _OBJECTS:
        return _OBJECTS[kind.kind]
    if kind in FAMILIES["workloads"] and kind.kind not in _HANDS_NOTHING:
        return _OWNER
    return _POD_ALONE if foreign else _NOWHERE


@cache
def _makes_groups(kind: JobKind) -> bool:
    return any(kind in FAMILIES[each] for each in ("volcano", "kubeflow", "jobset", "ray"))


def misplaced(kind: JobKind, obj: Any) -> list[str]:
    """A sentence for each honoured word that an object has, and that is read at none of the places where it stands.

    Args:
        kind: of the object.
        obj: a struct, or JSON values.
    """
    places: dict[str, tuple[str, str]] = {}
    counted = set()
    for above, part, at, notes in _metadata(kind, obj):
        for key in sorted(READ_AT.keys() & notes):
            if arrives(kind, above, part, key):
                counted.add(key)
            else:
                places.setdefault(key, (at, part))
    return [
        f"{at}[{key}] has no effect on a {kind.kind.kind} there: {_instead(kind, key)}"
        for key, (at, _) in places.items()
        if key not in counted
    ]


def misplaced_elsewhere(kind: Kind[Any], obj: Any) -> list[str]:
    """The same of a kind that is no job."""
    if kind not in _READ_ON:
        return []
    return [
        f"{at}[{key}] has no effect on a {kind.kind}: {_INSTEAD[_first(key)]}"
        for part in ("annotations", "labels")
        for at, notes in walk(obj, f"metadata.{part}")
        for key in sorted(READ_AT.keys() & notes)
        if part == "labels" or key not in _READ_ON[kind]
    ]


def _metadata(kind: JobKind, obj: Any) -> Iterator[tuple[str, Part, str, Mapping[str, Any]]]:
    parts: tuple[Part, Part] = ("annotations", "labels")
    for above in ("", *kind.inner, *kind.templates):
        for part in parts:
            for at, notes in walk(obj, f"{above}.metadata.{part}" if above else f"metadata.{part}"):
                if isinstance(notes, Mapping):
                    yield above, part, at, notes


def _instead(kind: JobKind, key: str) -> str:
    parts: tuple[Part, Part] = ("annotations", "labels")
    for name in (key, _OTHER_NAMES.get(key)):
        for above in ("", *kind.inner, *kind.templates) if name else ():
            for part in parts:
                if name and arrives(kind, above, part, name):
                    where = f"{above}.metadata.{part}" if above else f"metadata.{part}"
                    return f"write {'it' if name == key else name} in {where}"
    return _INSTEAD[_first(key)]


def _first(key: str) -> Goal:
    return next(goal for goal in _INSTEAD if goal in READ_AT[key])


# Values of labels and annotations that are honoured: which can be read, and what becomes of the others.


def _one_of(*values: str) -> Callable[[str], bool]:
    return frozenset(values).__contains__


def _pairs(text: str) -> bool:
    return all(
        len(pair) == 2 and all(each.strip() for each in pair)
        for entry in text.split(",")
        if entry.strip()
        for pair in (entry.split("="),)
    )


def _weights(text: str) -> bool:
    pairs = [each.rpartition("=") for each in text.split(",") if each.strip()]
    return all(name.strip() and amount_or_none(value) for name, _, value in pairs)


def _positive_duration(text: str) -> bool:
    return (duration_or_none(text) or 0) > 0


def _readable_levels(text: str) -> bool:
    """On a Queue also by priority, which admission refuses where it cannot be read."""
    return text.strip() in EVICTION_LEVELS or "=" in text


def _duration(text: str) -> bool:
    return duration_or_none(text) is not None


_DURATION = (_duration, "a duration such as 10m", "is left out")
_SECONDS = (lambda text: bool(amount_or_none(text)), "a number of seconds above 0, such as 3600", "is left out")
_TRUE = (_one_of("true", "false"), "true or false", "counts as false")
_AMOUNT = (lambda text: amount_or_none(text) is not None, "a number that is not negative", "is left out")
_BOOLS = _one_of("true", "True", "TRUE", "t", "T", "1", "false", "False", "FALSE", "f", "F", "0")
_WHOLE = re.compile(r"[0-9]+", re.ASCII).fullmatch
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch
_BUDGETS_TEXT = "is refused on pods, those of a job too, and lets no pod of a PodGroup go"
_BUDGET = re.compile(r"[0-9]+%?", re.ASCII).fullmatch

_VALUES: Final[Mapping[str, tuple[Callable[[str], object], str, str]]] = {
    keys.PREEMPTABLE: (_BOOLS, "true or false", "counts as false"),
    RELOCATE_AFTER: _DURATION,
    ours.MIN_RUN_TIME: _DURATION,
    ours.EVICT_NOTICE: _DURATION,
    ours.IDLE_AFTER: _DURATION,
    ours.RETRY_ELSEWHERE: _DURATION,
    ours.ELASTIC_COOL_DOWN: _DURATION,
    ours.RESERVE_TIMEOUT: _DURATION,
    ours.START_TIMEOUT: _DURATION,
    ours.BIND_TIMEOUT: _DURATION,
    ours.WORKER_LOST_TIMEOUT: _DURATION,
    ours.RUN_SECONDS: _SECONDS,
    ours.EXIT_CODE: (_WHOLE, "a whole number", "counts as 0"),
    ours.ELASTIC: _TRUE,
    ours.REBALANCE: _TRUE,
    ours.DRAINED: _TRUE,
    ours.DIVIDED: (_one_of("true", "false"), "true or false", "is left out"),
    ours.MOST_REPLICAS: (_WHOLE, "a whole number", "is left out"),
    ours.MAX_EVICTIONS: (_WHOLE, "a whole number", "is left out"),
    ours.PROVISION_RETRIES: (_WHOLE, "a whole number", "counts as 0"),
    ours.SHARE_WEIGHTS: (_weights, "NAME=WEIGHT with weights above 0, separated by commas", "is left out in part"),
    ours.PRICE: _AMOUNT,
    ours.BOOT_SECONDS: _AMOUNT,
    ours.BANDWIDTH: _AMOUNT,
    ours.CHECKPOINT_TIME: (is_time, "a time such as 2026-01-02T15:04:05Z", "is left out"),
    ours.INTERRUPTED_AT: (is_time, "a time such as 2026-01-02T15:04:05Z", "is left out"),
    ours.PROGRESS: (re.compile(r"\s*\d+\s*/\s*\d+\s*").fullmatch, "DONE/TOTAL such as 30/100", "is left out"),
    ours.LIMITS_FROM: (_one_of("members"), "members", "is left out"),
    ours.RESTART_POLICY: (
        lambda text: text.strip().lower() in ("gang", "part", "never"),
        "Gang, Part or Never",
        "counts as Gang",
    ),
    EVICTABLE: (_readable_levels, "all, surplus or none", "is left out"),
    keys.COOLDOWN_TIME: _DURATION,
    keys.SLA_WAITING_TIME: (_positive_duration, "a duration such as 1h", "is left out"),
    "sla-waiting-time": (_positive_duration, "a duration such as 1h", "is left out"),
    keys.JDB_MIN_AVAILABLE: (_BUDGET, "a number or a percentage", _BUDGETS_TEXT),
    keys.JDB_MAX_UNAVAILABLE: (_BUDGET, "a number or a percentage", _BUDGETS_TEXT),
    keys.NUMA_TOPOLOGY_POLICY: (
        _one_of("", *POLICIES),
        f"one of {', '.join(POLICIES)}",
        "fits no node under numa-aware",
    ),
    keys.QOS_LEVEL: (_one_of("", *LEVELS), f"one of {', '.join(LEVELS)}", "is left out"),
    keys.NETWORK_TOPOLOGY_MODE: (lambda text: text.lower() in ("hard", "soft"), "hard or soft", "counts as hard"),
    keys.NETWORK_TOPOLOGY_HIGHEST_TIER: (_WHOLE, "a whole number", "is left out"),
    keys.GROUP_MIN_MEMBER: (_WHOLE, "a whole number", "counts as 1"),
    keys.TASK_PRIORITY: (_INTEGER, "a whole number", "is left out"),
    keys.POD_DELETION_COST: (_INTEGER, "a whole number", "counts as 0"),
    keys.QUOTA_BURST: (_one_of("true", "false"), "true or false", "counts as false"),
    SERVE: (_one_of("kueue"), "kueue", "is left out"),
    KUEUE_QUEUES: (_pairs, "LOCALQUEUE=QUEUE, separated by commas", "lets no job of a LocalQueue start"),
    keys.SAFE_TO_EVICT: (_one_of("true", "false"), "true or false", "is left out"),
    keys.DO_NOT_DISRUPT: (_one_of("true", "false"), "true or false", "is left out"),
}
"""By key: whether a text can be read, what to write, and what becomes of a text that cannot."""

_LONGEST: Final = 60


def unreadable(obj: Any, templates: tuple[str, ...] = ()) -> list[str]:
    """A sentence for each honoured word, on an object or on its pods' templates, whose value cannot be read.

    Args:
        obj: a struct, or JSON values.
        templates: paths of its pod templates.
    """
    return [
        f'{at}[{key}]: "{value[:_LONGEST]}" {becomes}: write {right}'
        for above in ("", *(f"{each}." for each in templates))
        for place in ("labels", "annotations")
        for at, found in walk(obj, f"{above}metadata.{place}")
        for key, value in (found.items() if isinstance(found, Mapping) else ())
        if key in _VALUES and isinstance(value, str)
        for good, right, becomes in (_VALUES[key],)
        if not good(value)
    ]
