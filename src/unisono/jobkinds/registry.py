"""All kinds of jobs, and the questions that are asked of an object whatever its kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from unisono.api.base import Object
from unisono.api.conditions import ENDED
from unisono.api.core import CustomResourceDefinition
from unisono.api.decode import decode
from unisono.api.kind import Kind
from unisono.api.kind_families import REPLICA_SETS
from unisono.api.kinds import JOBS
from unisono.jobkinds.argo import ARGO
from unisono.jobkinds.dask import DASK
from unisono.jobkinds.flink import FLINK
from unisono.jobkinds.jobset import JOBSET
from unisono.jobkinds.kind import MANAGED, JobKind, by_conditions
from unisono.jobkinds.kubeflow import KUBEFLOW
from unisono.jobkinds.leaderworkerset import LEADERWORKERSET
from unisono.jobkinds.paths import first
from unisono.jobkinds.ray import RAY
from unisono.jobkinds.spark import SPARK
from unisono.jobkinds.tables import Table, described, kinds_of, read_table
from unisono.jobkinds.volcano import VOLCANO
from unisono.jobkinds.workloads import PODS_ALONE, WORKLOADS

GROUP: Final = "unisono.kinds"
"""Entry points of installed packages that describe kinds."""
FOREIGN: Final[tuple[JobKind, ...]] = (*LEADERWORKERSET, *SPARK, *FLINK, *DASK, *ARGO)
"""Kinds that other programs define and run, and whose pods come to our schedulers."""
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
"""Every kind of job that this package knows, and what jobs are made from."""
_SERVED: Final = tuple(each for each in ALL if each not in FOREIGN)
JOB_KINDS: Final[tuple[Kind[Any], ...]] = tuple(each.kind for each in _SERVED if each.ends)
"""Every kind with a struct of ours whose objects run to an end."""
ELASTIC: Final[tuple[JobKind, ...]] = tuple(each for each in ALL if each.elastic is not None)
"""Kinds whose objects may be grown and shrunk."""
DIVIDED: Final[tuple[Kind[Any], ...]] = tuple(each.kind for each in ALL if each.fleet == "divided")
"""Kinds whose replicas a hub divides over members."""
DISPATCHED: Final[tuple[Kind[Any], ...]] = tuple(each.kind for each in ALL if each.fleet in ("whole", "parts"))
"""Kinds whose objects a hub sends to a member, or makes such objects of: they carry their place."""
FROM_TEMPLATES: Final = frozenset(each.kind.kind for each in WORKLOADS if each.own_pods)
"""Kinds that make pods with new names from a template: what is changed on a pod is lost with it. Their annotations hold
for the PodGroup of their pods."""
MAKES_JOBS: Final = frozenset(each.kind.kind for each in ALL if JOBS in each.makes)
"""Kinds that make jobs, each with a PodGroup of its own."""
FLOWS: Final = frozenset(each.kind.kind for each in ALL if JOBS in each.makes and each.ends)
"""Those of them that run to an end."""
PART_LABELS: Final[tuple[str, ...]] = tuple(dict.fromkeys(each.part_label for each in ALL if each.part_label))
"""Labels of pods that say which part of their job they are, in the order in which they count."""
OWNERS: Final[tuple[Kind[Any], ...]] = tuple(each.kind for each in _SERVED if each.runs)
"""Kinds that are known to have pods or PodGroups."""


def _owner_labels() -> tuple[tuple[str, str], ...]:
    kinds_by_label: dict[str, str] = {}
    for each in ALL:
        if each.pods_label:
            # A label that several kinds have tells of none of them.
            kinds_by_label[each.pods_label] = each.kind.kind if each.pods_label not in kinds_by_label else JOBS.kind
    return tuple(kinds_by_label.items())


OWNER_LABELS: Final[tuple[tuple[str, str], ...]] = _owner_labels()
"""Labels of pods that have the name of their job, and its kind, in the order in which they count."""


class Kinds:
    """Kinds of jobs that somebody knows.

    Args:
        kinds: the first of a name counts.
    """

    def __init__(self, kinds: Iterable[JobKind]) -> None:
        self._by_resource: dict[str, JobKind] = {}
        self._by_name: dict[tuple[str, str], JobKind] = {}
        for each in kinds:
            self._by_resource.setdefault(each.kind.resource, each)
            self._by_name.setdefault((each.kind.group, each.kind.kind), each)

    def of_resource(self, resource: str) -> JobKind | None:
        """What is known of a kind by its resource, such as ``rayjobs.ray.io``."""
        return self._by_resource.get(resource)

    def of_kind(self, api_version: str, kind: str) -> JobKind | None:
        """The same by its apiVersion, in whatever version, and its kind."""
        return self._by_name.get((api_version.rpartition("/")[0], kind))

    def of_object(self, obj: Any) -> JobKind | None:
        """The same of an object: a struct, or its JSON."""
        if isinstance(obj, Mapping):
            return self.of_kind(str(obj.get("apiVersion") or ""), str(obj.get("kind") or ""))
        known_kind = _BY_STRUCT.get(type(obj))
        if known_kind is None and isinstance(obj, Object):
            known_kind = self.of_kind(obj.api_version or "", obj.kind or "")
        return known_kind

    def between(self, resource: str) -> list[Kind[Any]]:
        """All kinds that may stand between an object of this resource and its pods."""
        kinds: dict[str, Kind[Any]] = {}
        todo = [resource]
        for each in todo:
            known_kind = self.of_resource(each)
            for kind in known_kind.makes if known_kind is not None else ():
                if kind.resource not in kinds:
                    kinds[kind.resource] = kind
                    todo.append(kind.resource)
        return list(kinds.values())


_BY_STRUCT: Final[Mapping[type[Object], JobKind]] = {each.kind.struct: each for each in _SERVED}
_BUILT_IN: Final = Kinds(ALL)


@cache
def _installed() -> tuple[tuple[JobKind, ...], Mapping[str, str]]:
    # Heavy to import, and needed by whoever meets a kind that is not known.
    from importlib.metadata import entry_points

    tables: dict[str, Table] = {}
    failed: dict[str, str] = {}
    for entry in entry_points(group=GROUP):
        try:
            given = entry.load()
            for number, each in enumerate(given if isinstance(given, list | tuple) else (given,)):
                table = each if isinstance(each, Table) else read_table(each)
                tables[f"{entry.name}[{number}]"] = table
        except Exception as error:  # whatever a package raises when it is imported
            failed[entry.name] = f"{type(error).__name__}: {error}"
    kinds, wrong = kinds_of(tables)
    return tuple(each for each in kinds if _BUILT_IN.of_resource(each.kind.resource) is None), {**failed, **wrong}


def installed() -> tuple[JobKind, ...]:
    """Kinds that installed packages describe by entry points; those that cannot be used are set aside."""
    return _installed()[0]


def set_aside() -> Mapping[str, str]:
    """By the name of each entry point that cannot be used: why."""
    return _installed()[1]


@cache
def known() -> Kinds:
    """Kinds of this package and of the installed ones; packages are looked for when the first is asked for."""
    return Kinds((*ALL, *installed()))


def known_with(crds: Iterable[CustomResourceDefinition]) -> tuple[Kinds, dict[str, str]]:
    """The same and what a cluster's definitions describe; by name what is wrong with those that cannot be used."""
    kinds, wrong = described(crds)
    return Kinds((*ALL, *installed(), *kinds)), wrong


def foreign() -> tuple[JobKind, ...]:
    """Kinds that other programs define: those of this package and of installed ones."""
    return (*FOREIGN, *installed())


def of_resource(resource: str) -> JobKind | None:
    """What is known of a kind by its resource, such as ``rayjobs.ray.io``."""
    return _BUILT_IN.of_resource(resource) or known().of_resource(resource)


def between(resource: str) -> list[Kind[Any]]:
    """All kinds that may stand between an object of this resource and its pods."""
    return (_BUILT_IN if _BUILT_IN.of_resource(resource) is not None else known()).between(resource)


def job_kind(kind: Kind[Any]) -> JobKind | None:
    """What is known of a kind; None where it is no job and makes none."""
    return _BUILT_IN.of_kind(kind.api_version, kind.kind) or known().of_kind(kind.api_version, kind.kind)


def job_kind_of(obj: Any) -> JobKind | None:
    """The same of an object: a struct, or its JSON."""
    return _BUILT_IN.of_object(obj) or known().of_object(obj)


def foreign_kind(api_version: str, kind: str) -> Kind[Any] | None:
    """A kind that another program defines and whose jobs are known here, in whatever version."""
    known_kind = _BUILT_IN.of_kind(api_version, kind) or known().of_kind(api_version, kind)
    return known_kind.kind if known_kind is not None and known_kind not in _SERVED else None


def named_queues(obj: Any, *, all_places: bool = True) -> Iterator[tuple[str, str]]:
    """Fields in which an object names a queue for its pods, and the queues; see `JobKind.named_queues`."""
    known_kind = job_kind_of(obj)
    return known_kind.named_queues(obj, all_places=all_places) if known_kind is not None else iter(())


PARTS: Final[tuple[Kind[Any], ...]] = tuple(
    {part.resource: part for kind in JOB_KINDS for part in between(kind.resource) if part not in JOB_KINDS}.values()
)
"""Kinds that stand between jobs and their pods and are no jobs themselves."""


def one_by_one(obj: Any) -> bool:
    """Whether each of an object's pods is made when the one before it is ready."""
    known_kind = job_kind_of(obj)
    return known_kind is not None and known_kind.one_by_one(obj)


def queues_of(obj: Any) -> list[str]:
    """The queues that an object's pods go to, as far as it says; see `JobKind.queues_of`."""
    known_kind = job_kind_of(obj)
    return known_kind.queues_of(obj) if known_kind is not None else []


def queue_of(obj: Any) -> str:
    """The queue that an object names for its pods; empty where it names none."""
    return next(iter(queues_of(obj)), "")


def handed_to(obj: Any) -> tuple[str, str]:
    """The field that hands an object to a controller of another system, and that controller; empty without one."""
    kind = job_kind_of(obj)
    at, own = (MANAGED, frozenset[str]()) if kind is None else (kind.managed, kind.managers)
    manager = first(obj, at)
    return (at, str(manager)) if manager and manager not in own else ("", "")


def pods_of(obj: Any) -> int:
    """Pods that an object and everything made for it may have at a time; 0 for kinds that ask for none."""
    known_kind = job_kind_of(obj)
    return known_kind.pods_of(obj) if known_kind is not None else 0


def pods_wanted(item: Mapping[str, Any]) -> int:
    """How many pods an object wants at this time, as far as its kind is known."""
    kind = job_kind_of(item)
    return sum(each.count for each in kind.pods(decode(kind.kind, item).obj) if not each.later) if kind else 0


def missing_pods(item: Mapping[str, Any], there: int) -> int:
    """How many pods the object still wants, where it has pods of its own and says how many; else 0."""
    kind = job_kind_of(item)
    if kind is None or any(each is not REPLICA_SETS for each in kind.makes):
        return 0
    obj, expected = decode(kind.kind, item).obj, pods_wanted(item)
    if (number := kind.to_end(obj)) is not None:
        expected = min(expected, number - (first(obj, "status.succeeded") or 0))
    return max(expected - there, 0)


def missing_parts(item: Mapping[str, Any], there: int) -> int:
    """How many objects that make its pods the object still wants; 0 where its spec does not say that in one number."""
    kind = job_kind_of(item)
    return max(kind.parts_of(item) - there, 0) if kind is not None else 0


def state_of(obj: Any, *, running: bool = False) -> tuple[str, str]:
    """Phase of an object of any kind of job, and what it says of it; see `JobKind.state`."""
    known_kind = job_kind_of(obj)
    return (known_kind.tells if known_kind is not None else by_conditions)(obj, running)


def has_ended(obj: Any) -> bool:
    """Whether an object will have no pods any more by itself."""
    return state_of(obj)[0] in ENDED


def too_many(pods: int, most: int) -> str:
    """Why an object of so many pods is too large for a limit of ``most``; empty when it is not."""
    if pods <= most:
        return ""
    return f"asks for {pods} pods, more than the limit of {most} for one object; ask for fewer or raise the limit"
