"""Tables that describe kinds of jobs which other programs define: in a package, or on a CustomResourceDefinition.

A table is data: where things stand in an object, as paths of `paths`. Whatever it leaves out is not known of the kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Literal

import msgspec

from unisono.api.annotations import JOB_KIND
from unisono.api.base import Base, Object
from unisono.api.core import Container, CustomResourceDefinition, PodSpec, ResourceRequirements
from unisono.api.kind import Kind
from unisono.api.kind_families import BATCH_JOBS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS
from unisono.errors import UnisonoError
from unisono.jobkinds.kind import NOTE, JobKind, PodSet, Tells, by_conditions, by_field, noted
from unisono.jobkinds.paths import first, steps

PHASES: Final = ("Completed", "Failed", "Running", "Suspended", "Restarting", "Aborted", "Terminated")
"""What values of a field of the status may mean."""
_PATH = re.compile(r"(?:[A-Za-z_][\w-]{0,99}|\*)(?:\[(?:\*|[\w./-]{1,317})\])?")
_LONGEST_TABLE = 16 * 1024
_MOST = 64
"""Entries of any list of a table."""
_DEEPEST = 20
_LARGEST = 1_000_000
_MADE = {kind.resource: kind for kind in (BATCH_JOBS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)}
_JVM = re.compile(r"(\d{1,18})\s*([kmgt]?)b?", re.IGNORECASE)
_JVM_UNITS = {"": "", "k": "Ki", "m": "Mi", "g": "Gi", "t": "Ti"}


class BadTable(UnisonoError):
    """A table cannot be used; the message names it and says why."""


class ForeignObject(Object):
    """An object of which we know where some things stand."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class PodTable(Base, forbid_unknown_fields=True):
    """Pods of one role.

    Attributes:
        role: its name.
        template: path of the pods' template; empty where there is none.
        spec: path of their pod spec, where that stands alone.
        count: path of how many there are.
        default: how many where nothing is said.
        later: they are made when others run.
        requests: by resource: path of what one pod requests, where that is not in its containers.
    """

    role: str
    template: str = ""
    spec: str = ""
    count: str = ""
    default: int = 1
    later: bool = False
    requests: dict[str, str] = msgspec.field(default_factory=dict)


class FlagTable(Base, forbid_unknown_fields=True):
    """How an object is suspended: the field at ``path`` gets the one value or the other."""

    path: str
    value: bool | str = True
    otherwise: bool | str = False


class StateTable(Base, forbid_unknown_fields=True):
    """How an object tells that it has ended: by a field, or (without ``path``) by conditions as Kubernetes' Jobs do.

    Attributes:
        path: of the field.
        phases: by phase (`PHASES`): values of the field.
        message: path of what it says of it.
    """

    path: str = ""
    phases: dict[str, list[str]] = msgspec.field(default_factory=dict)
    message: str = ""


class Table(Base, forbid_unknown_fields=True):
    """One kind.

    Attributes:
        group, version, kind, plural: its names; those of the definition where the table is an annotation of one.
        pods: pods of each role.
        templates: paths of further templates of pods, whose number is not known.
        inner: paths of templates of objects between it and its pods.
        queues: paths at which the name of a queue is heeded, the first first; without any: that annotation on the
            object and in its templates.
        priorities: paths of names of priority classes for the gang.
        replicas: path of the number that says how many pods it has; ``.*`` in it stands for each role.
        suspend: how it is suspended.
        ended: how it tells that it has ended; without it its objects run for ever.
        makes: resources (``deployments.apps``, or of another table) that its controller makes and that have pods.
        own_pods: its controller makes pods as well.
        pods_label: label of its pods that has its name.
        part_label: label of its pods that has their role.
        one_group: all pods are in one PodGroup: those that are there from the start are its minMember, and minResources
            counts the later ones, too.
        refers: objects that it refers to may name its queue.
        units: how amounts are written in ``requests``: as Kubernetes does, or ``jvm`` (``512m`` are MiB).
        fleet: a hub sends its objects to members, where ``pods`` tell what they need.
    """

    group: str = ""
    version: str = ""
    kind: str = ""
    plural: str = ""
    pods: list[PodTable] = msgspec.field(default_factory=list)
    templates: list[str] = msgspec.field(default_factory=list)
    inner: list[str] = msgspec.field(default_factory=list)
    queues: list[str] = msgspec.field(default_factory=list)
    priorities: list[str] = msgspec.field(default_factory=list)
    replicas: str = ""
    suspend: FlagTable | None = None
    ended: StateTable | None = None
    makes: list[str] = msgspec.field(default_factory=list)
    own_pods: bool = True
    pods_label: str = ""
    part_label: str = ""
    one_group: bool = False
    refers: bool = False
    units: Literal["kubernetes", "jvm"] = "kubernetes"
    fleet: bool = True

    def job_kind(self, made: Mapping[str, Kind[Any]] = _MADE) -> JobKind:
        """The kind that it describes.

        Args:
            made: kinds that it may make, by resource.

        Raises:
            BadTable: it names no kind, a path is none, or there is too much of something.
        """
        self._check(made)
        templates = (*(each.template for each in self.pods if each.template), *self.templates)
        return JobKind(
            made.get(f"{self.plural}.{self.group}") or _kind_of(self),
            templates=tuple(dict.fromkeys(templates)),
            inner=tuple(self.inner),
            queues=tuple(self.queues) or (NOTE, *noted(*dict.fromkeys(templates))),
            priorities=tuple(self.priorities),
            pods=self.pod_sets,
            replicas=self.replicas,
            control="flag" if self.suspend is not None else "",
            flag=self.suspend.path if self.suspend is not None else "",
            flag_values=(self.suspend.value, self.suspend.otherwise) if self.suspend is not None else (True, False),
            tells=self._tells(),
            ends=self.ended is not None,
            makes=tuple(made[each] for each in self.makes),
            own_pods=self.own_pods,
            pods_label=self.pods_label,
            part_label=self.part_label,
            one_group=self.one_group,
            refers=self.refers,
            fleet="whole" if self.fleet and self.pods else "",
        )

    def pod_sets(self, obj: Any) -> Iterator[PodSet]:
        """Pods of each role, as far as an object says."""
        for each in self.pods:
            count = number(first(obj, each.count) if each.count else None, each.default)
            given = first(obj, each.spec or f"{each.template}.spec") if each.spec or each.template else None
            requests = {
                name: amount
                for name, path in each.requests.items()
                if (amount := quantity(first(obj, path), self.units)) and amount != "0"
            }
            yield PodSet(each.role, count, pod_spec(given, requests), 0 if each.later else count, each.later)

    def _tells(self) -> Tells:
        if self.ended is None or not self.ended.path:
            return by_conditions
        return by_field(self.ended.path, self.ended.phases, self.ended.message)

    def _check(self, made: Mapping[str, Kind[Any]]) -> None:
        missing = [name for name in ("version", "kind", "plural") if not getattr(self, name)]
        if missing:
            raise BadTable(f"the table has no {' and no '.join(missing)}")
        own = self.suspend.path if self.suspend is not None else None
        ended = self.ended or StateTable()
        lists: tuple[list[Any], ...] = (self.pods, self.templates, self.inner, self.queues, self.priorities, self.makes)
        if max(map(len, lists)) > _MOST or any(len(each.requests) > _MOST for each in self.pods):
            raise BadTable(f"the table has a list of more than {_MOST} entries")
        if unknown := sorted(set(ended.phases) - set(PHASES)):
            raise BadTable(f"ended.phases: {unknown[0]} is none of {', '.join(PHASES)}")
        if strange := [each for each in self.makes if each not in made]:
            raise BadTable(f"makes: {strange[0]} is no resource that is known to have pods")
        paths = [
            *(path for each in self.pods for path in (each.template, each.spec, each.count, *each.requests.values())),
            *(*self.templates, *self.inner, *self.queues, *self.priorities),
            *(self.replicas, ended.path, ended.message),
        ]
        if own is not None and (not own or "*" in own):
            raise BadTable("suspend.path: it must lead to one field")
        for path in filter(None, [*paths, own]):
            check_path(path)
        if any(not 0 <= each.default <= _LARGEST for each in self.pods):
            raise BadTable(f"pods.default must be 0 to {_LARGEST}")


def check_path(path: str) -> None:
    """Raise BadTable where a path cannot be followed."""
    if not all(map(_PATH.fullmatch, _split(path))) or len(steps(path)) > _DEEPEST:
        raise BadTable(f"{path[:100]!r} is no path such as spec.worker.template or spec.groups[*].template")


def _split(path: str) -> list[str]:
    """Its parts between dots; a key in brackets may have dots."""
    return re.split(r"\.(?![^\[]*\])", path)


def number(value: Any, default: int) -> int:
    """A number of pods in an object that nobody has checked."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:9])
    if not isinstance(value, int) or isinstance(value, bool):
        return default
    return min(max(value, 0), _LARGEST)


def quantity(value: Any, units: str) -> str:
    """An amount in an object that nobody has checked, as Kubernetes writes it; empty where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return ""
    text = str(value).strip()
    if units == "jvm" and (match := _JVM.fullmatch(text)) and match[2]:
        return f"{match[1]}{_JVM_UNITS[match[2].lower()]}"
    return text


def pod_spec(given: Any, requests: Mapping[str, str]) -> PodSpec:
    """The spec of pods, of which ``given`` is as much as an object states, with what they request besides."""
    spec = PodSpec()
    with suppress(msgspec.ValidationError):
        spec = msgspec.convert(given if isinstance(given, Mapping) else {}, PodSpec)
    containers = spec.containers or [Container(name="main")]
    if spec.containers and not requests:
        return spec
    # The operator's own container, of which the template may state some of the rest.
    main = containers[0]
    stated = main.resources.requests if main.resources is not None else None
    main = msgspec.structs.replace(main, resources=ResourceRequirements(requests={**(stated or {}), **requests}))
    return msgspec.structs.replace(spec, containers=[main, *containers[1:]])


def read_table(given: Any, **names: str) -> Table:
    """A table from YAML or JSON, or from a mapping.

    Args:
        given: the table.
        names: of its kind, where the text need not say them; they count.

    Raises:
        BadTable: the text is too long, or no table.
    """
    from unisono.api.yaml import load_all  # heavy to import

    if isinstance(given, str) and len(given) > _LONGEST_TABLE:
        raise BadTable(f"the table is longer than {_LONGEST_TABLE} characters")
    try:
        documents = load_all(given, "table") if isinstance(given, str) else []
        value = documents[0].value if len(documents) == 1 else given
        if not isinstance(value, dict):
            raise BadTable("the table is no mapping")
        return msgspec.convert({**value, **names}, Table)
    except (msgspec.ValidationError, UnisonoError, RecursionError) as error:
        raise error if isinstance(error, BadTable) else BadTable(str(error)) from error


def kinds_of(tables: Mapping[str, Table], *, alone: bool = False) -> tuple[list[JobKind], dict[str, str]]:
    """The kinds that tables describe, by what people call each; and what is wrong with those that cannot be used.

    ``alone``: what they make may be described elsewhere.
    """
    made = dict(_MADE)
    for table in tables.values():
        kind = _kind_of(table)
        made[kind.resource] = kind
        if alone:
            made |= {each: kind for each in table.makes if each not in made}
    kinds: list[JobKind] = []
    wrong: dict[str, str] = {}
    for name, table in tables.items():
        try:
            kinds.append(table.job_kind(made))
        except BadTable as error:
            wrong[name] = str(error)
    return kinds, wrong


def family(*tables: Table) -> tuple[JobKind, ...]:
    """Kinds of this package that make each other.

    Raises:
        BadTable: one cannot be used.
    """
    kinds, wrong = kinds_of({table.kind: table for table in tables})
    for name, why in wrong.items():
        raise BadTable(f"{name}: {why}")
    return tuple(kinds)


def described(crds: Iterable[CustomResourceDefinition], *, alone: bool = False) -> tuple[list[JobKind], dict[str, str]]:
    """Kinds that a cluster's definitions describe, and by name what is wrong with those that cannot be used.

    ``alone``: these are not all definitions, and what is asked is not what the kinds make.
    """
    wrong: dict[str, str] = {}
    tables: dict[str, Table] = {}
    crds = list(crds)
    for crd in crds:
        text = (crd.metadata.annotations or {}).get(JOB_KIND)
        if text is None:
            continue
        names, versions = crd.spec.names, crd.spec.versions or []
        version = next((each.name for each in versions if each.storage), versions[0].name if versions else "")
        try:
            tables[crd.metadata.name] = read_table(
                text, group=crd.spec.group, version=version, kind=names.kind, plural=names.plural
            )
        except BadTable as error:
            wrong[crd.metadata.name] = str(error)
    kinds, more = kinds_of(tables, alone=alone)
    return [as_served(each, crds) for each in kinds], wrong | more


def as_served(known: JobKind, crds: Iterable[CustomResourceDefinition]) -> JobKind:
    """The kind with the subresource that its definition has: without it the status is a field like any other."""
    kind = known.kind
    served = any(
        version.name == kind.version and version.subresources is not None and version.subresources.status is not None
        for crd in crds
        if crd.metadata.name == kind.resource
        for version in crd.spec.versions or ()
    )
    return known if served else replace(known, kind=replace(kind, status_subresource=False))


def _kind_of(table: Table) -> Kind[Any]:
    return Kind(table.group, table.version, table.kind, table.plural, ForeignObject, status_subresource=True)
