"""All kinds of jobs, and the questions that are asked of an object whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from unisono.api.base import Object
from unisono.api.job_state import ENDED
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS
from unisono.jobkinds.foreign import FOREIGN
from unisono.jobkinds.jobset import JOBSET
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.kubeflow import KUBEFLOW
from unisono.jobkinds.ray import RAY
from unisono.jobkinds.states import by_conditions
from unisono.jobkinds.volcano import VOLCANO
from unisono.jobkinds.workloads import PODS_ALONE, WORKLOADS

FAMILIES: Final[Mapping[str, tuple[JobKind, ...]]] = {
    "volcano": VOLCANO,
    "kubeflow": KUBEFLOW,
    "jobset": JOBSET,
    "ray": RAY,
    "workloads": WORKLOADS,
    "pods": PODS_ALONE,
    "others": FOREIGN,
}
"""Kinds whose objects look alike."""
ALL: Final[tuple[JobKind, ...]] = tuple(each for family in FAMILIES.values() for each in family)
"""Every kind of job, and what jobs are made from."""
JOB_KINDS: Final[tuple[Kind[Any], ...]] = tuple(each.kind for each in ALL if each.ends)
"""Every kind whose objects run to an end."""


def _owner_labels() -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for each in ALL:
        if each.pods_label:
            # A label that several kinds have tells of none of them.
            found[each.pods_label] = each.kind.kind if each.pods_label not in found else JOBS.kind
    return tuple(found.items())


ELASTIC: Final[tuple[JobKind, ...]] = tuple(each for each in ALL if each.elastic is not None)
"""Kinds whose objects may be grown and shrunk."""
DIVIDED: Final[tuple[Kind[Any], ...]] = tuple(each.kind for each in ALL if each.fleet == "divided")
"""Kinds whose replicas a hub divides over members."""
DISPATCHED: Final[tuple[Kind[Any], ...]] = tuple(each.kind for each in ALL if each.fleet in ("whole", "parts"))
"""Kinds whose objects a hub sends to a member, or makes such objects of: they carry their place."""
PART_LABELS: Final[tuple[str, ...]] = tuple(dict.fromkeys(each.part_label for each in ALL if each.part_label))
"""Labels of pods that say which part of their job they are, in the order in which they count."""
OWNER_LABELS: Final[tuple[tuple[str, str], ...]] = _owner_labels()
"""Labels of pods that have the name of their job, and its kind, in the order in which they count."""
FOREIGN_KINDS: Final[tuple[Kind[Any], ...]] = tuple(each.kind for each in FOREIGN)
"""Kinds that other programs define."""

OWNERS: Final[tuple[Kind[Any], ...]] = tuple(each.kind for each in ALL if each.runs and each not in FOREIGN)
"""Kinds that are known to have pods or PodGroups."""

_BY_RESOURCE: Final = {each.kind.resource: each for each in ALL}
_BY_NAME: Final[Mapping[tuple[str, str], JobKind]] = {(each.kind.group, each.kind.kind): each for each in ALL}
_BY_STRUCT: Final[Mapping[type[Object], JobKind]] = {each.kind.struct: each for each in ALL if each not in FOREIGN}


def of_resource(resource: str) -> JobKind | None:
    """What is known of a kind by its resource, such as ``rayjobs.ray.io``."""
    return _BY_RESOURCE.get(resource)


def between(resource: str) -> list[Kind[Any]]:
    """All kinds that may stand between an object of this resource and its pods."""
    found: dict[str, Kind[Any]] = {}
    todo = [resource]
    for each in todo:
        known = of_resource(each)
        for kind in known.makes if known is not None else ():
            if kind.resource not in found:
                found[kind.resource] = kind
                todo.append(kind.resource)
    return list(found.values())


def job_kind(kind: Kind[Any]) -> JobKind | None:
    """What is known of a kind; None where it is no job and makes none."""
    return _BY_NAME.get((kind.group, kind.kind))


def job_kind_of(obj: Any) -> JobKind | None:
    """The same of an object: a struct, or its JSON."""
    if isinstance(obj, Mapping):
        return _BY_NAME.get((str(obj.get("apiVersion") or "").rpartition("/")[0], str(obj.get("kind") or "")))
    found = _BY_STRUCT.get(type(obj))
    if found is None and isinstance(obj, Object):
        found = _BY_NAME.get(((obj.api_version or "").rpartition("/")[0], obj.kind or ""))
    return found


def named_queues(obj: Any, *, all_places: bool = True) -> Iterator[tuple[str, str]]:
    """Fields in which an object names a queue for its pods, and the queues; see `JobKind.named_queues`."""
    found = job_kind_of(obj)
    return found.named_queues(obj, all_places=all_places) if found is not None else iter(())


def foreign_kind(api_version: str, kind: str) -> Kind[Any] | None:
    """A kind that another program defines and whose jobs are known here, in whatever version."""
    return next((each for each in FOREIGN_KINDS if each.matches(api_version, kind)), None)


PARTS: Final[tuple[Kind[Any], ...]] = tuple(
    {part.resource: part for kind in JOB_KINDS for part in between(kind.resource) if part not in JOB_KINDS}.values()
)
"""Kinds that stand between jobs and their pods and are no jobs themselves."""


def queues_of(obj: Any) -> list[str]:
    """The queues that an object's pods go to, as far as it says; see `JobKind.queues_of`."""
    found = job_kind_of(obj)
    return found.queues_of(obj) if found is not None else []


def queue_of(obj: Any) -> str:
    """The queue that an object names for its pods; empty where it names none."""
    return next(iter(queues_of(obj)), "")


def pods_of(obj: Object) -> int:
    """Pods that an object and everything made for it may have at a time; 0 for kinds that ask for none."""
    found = job_kind_of(obj)
    return found.pods_of(obj) if found is not None else 0


def state_of(obj: Any, *, running: bool = False) -> tuple[str, str]:
    """Phase of an object of any kind of job, and what it says of it; see `JobKind.state`."""
    found = job_kind_of(obj)
    return (found.tells if found is not None else by_conditions)(obj, running)


def has_ended(obj: Any) -> bool:
    """Whether an object will have no pods any more by itself."""
    return state_of(obj)[0] in ENDED


def too_many(obj: Object, most: int) -> str:
    """Why an object is too large for a limit of ``most`` pods; empty when it is not."""
    pods = pods_of(obj)
    if pods <= most:
        return ""
    return f"asks for {pods} pods, more than the limit of {most} for one object; ask for fewer or raise the limit"
