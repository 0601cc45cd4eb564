"""Owner references: who made an object, and the indexes by which its objects are found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from unisono.api.annotations import (
    EVICTABLE,
    GOT,
    GOT_VARIABLE,
    IDLE_AFTER,
    LICENSES,
    ONE_OF,
    ONE_OF_BY,
    RELOCATE_AFTER,
    RESERVATION,
    RETRY_ELSEWHERE,
)
from unisono.api.base import Object, OwnerReference
from unisono.api.core import EnvVar, EnvVarSource, ObjectFieldSelector, Pod
from unisono.api.gang_affinity import WORDS
from unisono.api.keys import COOLDOWN_TIME, JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, PREEMPTABLE, REVOCABLE_ZONE
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS
from unisono.api.selecting import controller_of
from unisono.api.validation.cluster import LARGEST
from unisono.errors import UnisonoError
from unisono.kube.informer import Informer

# Labels, annotations and other texts of pods: their keys, numbers and JSON in them, lists of hosts.

# Labels and annotations that tie pods, pod groups and queues to their jobs.

# Which restart killed the pod: written before the job's status, so that a crash in between loses no retry.
RESTART_ROUND = "unisono.io/restart-round"

# Annotations and labels that pods and pod groups take over from their job or from the pod they are made for.
INHERITED_ANNOTATIONS = (
    *(PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE, EVICTABLE, RELOCATE_AFTER, RESERVATION),
    *(IDLE_AFTER, RETRY_ELSEWHERE, ONE_OF, ONE_OF_BY),
)
_FOR_GROUPS = frozenset((EVICTABLE, LICENSES, RELOCATE_AFTER, RESERVATION, IDLE_AFTER, ONE_OF, ONE_OF_BY, *WORDS))
INHERITED_LABELS = (PREEMPTABLE, COOLDOWN_TIME)


def for_group(key: str) -> bool:
    """Whether an annotation of what controls pods is for the pod group that is made of it."""
    return key.startswith("volcano.sh/") or key in _FOR_GROUPS


def disruption_budget(annotations: dict[str, str]) -> dict[str, str]:
    """The job's disruption budget: the least available pods, or else the most unavailable ones."""
    for key in (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE):
        if key in annotations:
            return {key: annotations[key]}
    return {}


def inherited_annotations(annotations: dict[str, str]) -> dict[str, str]:
    """What a pod or pod group takes over from these annotations."""
    taken = {key: annotations[key] for key in INHERITED_ANNOTATIONS if key in annotations}
    return taken | disruption_budget(annotations)


def inherited_labels(labels: dict[str, str]) -> dict[str, str]:
    """What a pod or pod group takes over from these labels."""
    return {key: labels[key] for key in INHERITED_LABELS if key in labels}


def tell_kind_of_nodes(pod: Pod) -> None:
    """Let the containers of a pod that takes one of several kinds of nodes know which one it got.

    The scheduler writes it on the pod with its node, so it is there before any container starts.
    """
    if ONE_OF not in (pod.metadata.annotations or {}):
        return
    source = EnvVarSource(field_ref=ObjectFieldSelector(field_path=f"metadata.annotations['{GOT}']"))
    for container in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ())):
        if not any(each.name == GOT_VARIABLE for each in container.env or ()):
            container.env = [*(container.env or ()), EnvVar(name=GOT_VARIABLE, value_from=source)]


# Numbers and JSON in texts that users write: labels, annotations, flags, messages of containers (pure).

LARGEST_NUMBER: Final = 2**63 - 1
"""The largest number that is told from larger ones, as in Kubernetes' int64."""
_DIGITS = len(str(LARGEST_NUMBER))


def whole_number(text: str | None) -> int | None:
    """The number that ASCII digits name, `LARGEST` at most; None for every other text.

    Python's ``isdigit`` and ``isdecimal`` are true for texts that ``int`` refuses: ``²``, and more than 4,300 digits.
    """
    if not text or not text.isascii() or not text.isdigit():
        return None
    digits = text.lstrip("0")
    return LARGEST_NUMBER if len(digits) > _DIGITS else min(int(digits or "0"), LARGEST_NUMBER)


def json_object(text: str | None) -> dict[str, Any]:
    """The JSON object that a text holds; empty where it holds none, or one that is nested too deep to be read."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# Lists of all hosts of a job: how long they may be in an environment variable and in a ConfigMap (pure).

LONGEST_VARIABLE = 128 * 1024
"""Longest NAME=value that Linux takes when it starts a program, its final zero included."""


class TooManyHosts(UnisonoError):
    """A list of the job's hosts does not fit where its pods look for it."""


def variable_too_long(name: str, value: str) -> str:
    """Why no container would start with the variable; empty when it would."""
    if len(name) + len(value) + 2 <= LONGEST_VARIABLE:
        return ""
    return (
        f"{name} of {len(value)} characters is too long for an environment variable "
        f"({LONGEST_VARIABLE} with its name): the job has too many pods for it; use fewer."
    )


def list_too_long(hosts: int, size: int) -> str:
    """Why a ConfigMap cannot hold lists of so many hosts of ``size`` bytes together; empty when it can."""
    if size <= LARGEST:
        return ""
    return (
        f"lists of {hosts} hosts take {size} bytes, more than the {LARGEST} that a ConfigMap holds: "
        "the job has too many pods; use fewer, or shorter names."
    )


# Indexes on informers that several controllers share.

T = TypeVar("T", bound=Object)


def index(informer: Informer[T], name: str, function: Callable[[T], Iterable[str]]) -> None:
    """Add the index unless another controller has done so already."""
    if not informer.has_index(name):
        informer.add_index(name, function)


def owned_by(kind: Kind[Any], owner: Object) -> OwnerReference:
    """Reference that makes ``owner`` the controller of a dependent, which goes when the owner goes."""
    return OwnerReference(
        api_version=kind.api_version,
        kind=kind.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid or "",
        controller=True,
        block_owner_deletion=True,
    )


def controller_uids(obj: Object) -> list[str]:
    """UID of the object's controller, of whatever kind."""
    reference = controller_of(obj)
    return [reference.uid] if reference else []


def controller_keys(obj: Object) -> list[str]:
    """Index function: what ``family`` answers for the object's controller.

    A reference is only what its author wrote. Owners are in their dependents' namespace: one that names the UID of an
    object elsewhere must not make its dependent count there.
    """
    return [_family(obj, uid) for uid in controller_uids(obj)]


def family(owner: Object) -> str:
    """Under which value of an index by ``controller_keys`` or ``job_families`` the dependents of an owner are found."""
    return _family(owner, owner.metadata.uid or "")


def controller_of_kind(kind: Kind[Any], obj: Object) -> OwnerReference | None:
    """The controller reference if it names an object of this kind, in whatever version."""
    reference = controller_of(obj)
    if reference is None or reference.kind != kind.kind or reference.api_version.partition("/")[0] != kind.group:
        return None
    return reference


def keys_of(kind: Kind[Any], obj: Object) -> list[str]:
    """Key of the object's controller, ``namespace/name``, if it is of this kind."""
    reference = controller_of_kind(kind, obj)
    return [f"{obj.metadata.namespace}/{reference.name}"] if reference else []


def job_uids(obj: Object) -> list[str]:
    """UID of the controlling Job."""
    reference = controller_of_kind(JOBS, obj)
    return [reference.uid] if reference else []


def job_families(obj: Object) -> list[str]:
    """Index function: what ``family`` answers for the controlling Job."""
    return [_family(obj, uid) for uid in job_uids(obj)]


def job_keys(obj: Object) -> list[str]:
    """Key of the controlling Job, ``namespace/name``."""
    return keys_of(JOBS, obj)


def _family(obj: Object, uid: str) -> str:
    return f"{obj.metadata.namespace or ''}/{uid}"
