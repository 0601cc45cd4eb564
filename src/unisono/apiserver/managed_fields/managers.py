"""The entries of ``metadata.managedFields``, and what a create, an update or a patch does to them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar

from unisono.apiserver.managed_fields.paths import NONE, Path, Paths, Schema, compare, field_step, from_tree, to_tree

# Objects of one outline have the same fields: values that no ownership depends on are left out, answers are kept.

T = TypeVar("T", bound=Sized)


def telling(schema: Schema) -> frozenset[str]:
    """Names of fields whose values tell items of lists apart, anywhere in a schema, and of lists that are sets."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        found.update(node.get("x-kubernetes-list-map-keys", ()))
        for name, each in node.items():
            if isinstance(each, dict) and each.get("x-kubernetes-list-type") == "set":
                found.add(name)
            waiting.append(each)
    return frozenset(found)


def outline(value: Any, names: frozenset[str]) -> Hashable:
    """A JSON value without what is behind other names than ``names``, apart from what holds further fields.

    Two objects with equal outlines have the same fields in the sense of ``compare``, where ``names`` are the telling
    ones of their schema: their maps have the same keys, their lists the same items by key.
    """
    if isinstance(value, dict):
        return tuple([(name, _behind(name, each, names)) for name, each in value.items()])
    # Lists of plain values are one field, whatever they hold.
    return tuple([outline(each, names) if isinstance(each, dict | list) else None for each in value])


def _behind(name: str, value: Any, names: frozenset[str]) -> Hashable:
    if name in names:
        return repr(value)
    return outline(value, names) if isinstance(value, dict | list) else None


class Kept(Generic[T]):
    """The answers to the last ``most`` questions.

    Args:
        most: how many are kept.
        largest: length from which on an answer is not kept, for it and its question take megabytes.

    """

    def __init__(self, most: int, largest: int) -> None:
        self._most, self._largest = most, largest
        self._answers: OrderedDict[Hashable, T] = OrderedDict()

    def answer(self, question: Hashable, find: Callable[[], T]) -> T:
        """What ``find`` answered to this question, or answers now; a failure is not kept."""
        if question in self._answers:
            self._answers.move_to_end(question)
            return self._answers[question]
        found = find()
        if len(found) >= self._largest:
            return found
        self._answers[question] = found
        if len(self._answers) > self._most:
            self._answers.popitem(last=False)
        return found


# The entries of ``metadata.managedFields``: who wrote, how, when, and which fields that owner holds.

Operation = Literal["Apply", "Update"]
FIELDS_TYPE = "FieldsV1"
# More update managers than this are merged into one, oldest first, as Kubernetes does.
MAX_UPDATERS = 10
ANCIENT = "ancient-changes"


@dataclass(frozen=True, slots=True)
class FieldManager:
    """Who writes: entries of equal writers are one entry.

    Attributes:
        name: the field manager.
        operation: Apply, or Update for every other write.
        api_version: version of the fields; appliers keep one entry for all versions.
        subresource: ``status``, or empty for the object itself.

    """

    name: str
    operation: Operation
    api_version: str
    subresource: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        """What makes two writers one."""
        return (
            self.name,
            self.operation,
            "" if self.operation == "Apply" else self.api_version,
            self.subresource,
        )


@dataclass(frozen=True, slots=True)
class ManagerEntry:
    """The fields of one writer.

    Attributes:
        writer: whose they are.
        time: when it last took or gave up any.
        fields: what it owns.
        wire: the entry as it was read, so that what did not change is not written again.

    """

    writer: FieldManager
    time: str | None = None
    fields: Paths = NONE
    wire: dict[str, Any] | None = field(default=None, compare=False)


def read_entries(managed: Iterable[Any] | None) -> list[ManagerEntry]:
    """The entries of ``metadata.managedFields``.

    Raises:
        ValueError: an entry is malformed.

    """
    return [_read(entry) for entry in managed or ()]


def _read(entry: Any) -> ManagerEntry:
    if not isinstance(entry, dict):
        raise ValueError("an entry of managedFields must be an object")
    operation, api_version = entry.get("operation"), entry.get("apiVersion")
    if operation not in ("Apply", "Update"):
        raise ValueError("operation must be `Apply` or `Update`")
    if not api_version:
        raise ValueError("apiVersion must not be empty")
    if entry.get("fieldsType") != FIELDS_TYPE:
        raise ValueError(f"fieldsType must be {FIELDS_TYPE}")
    texts = [entry.get("manager", ""), api_version, entry.get("subresource", "")]
    time = entry.get("time")
    if not all(isinstance(each, str) for each in texts) or not isinstance(time, str | None):
        raise ValueError("manager, apiVersion, subresource and time must be texts")
    writer = FieldManager(texts[0], operation, texts[1], texts[2])
    return ManagerEntry(writer, time, from_tree(entry.get("fieldsV1") or {}), entry)


def write_entries(entries: Iterable[ManagerEntry]) -> list[dict[str, Any]] | None:
    """``metadata.managedFields`` in Kubernetes' order: appliers first, then by time and name; None without entries."""
    ordered = sorted(entries, key=lambda each: (each.writer.operation, each.time or "", each.writer.identity))
    return [_write(entry) for entry in ordered] or None


def _write(entry: ManagerEntry) -> dict[str, Any]:
    if entry.wire is not None:
        return entry.wire
    writer = entry.writer
    written: dict[str, Any] = {
        "manager": writer.name,
        "operation": writer.operation,
        "apiVersion": writer.api_version,
        "time": entry.time,
        "fieldsType": FIELDS_TYPE,
        "fieldsV1": to_tree(entry.fields),
        "subresource": writer.subresource,
    }
    return {key: value for key, value in written.items() if value or key == "fieldsV1"}


def without(entries: Iterable[ManagerEntry], fields: set[tuple[str, ...]]) -> list[ManagerEntry]:
    """The entries without these fields; empty ones are dropped."""
    kept = (
        entry if entry.fields.isdisjoint(fields) else replace(entry, fields=entry.fields - fields, wire=None)
        for entry in entries
    )
    return [entry for entry in kept if entry.fields]


def capped(entries: Sequence[ManagerEntry]) -> list[ManagerEntry]:
    """At most ``MAX_UPDATERS`` update entries; the oldest of a version are merged."""
    updaters = sorted(
        (entry for entry in entries if entry.writer.operation == "Update"),
        key=lambda each: (each.time or "", each.writer.identity),
    )
    surplus = len(updaters) - MAX_UPDATERS
    if surplus <= 0:
        return list(entries)
    kept = [entry for entry in entries if entry.writer.operation == "Apply"]
    groups: dict[str, list[ManagerEntry]] = {}
    for entry in updaters:
        group = groups.setdefault(entry.writer.api_version, [])
        if surplus and group:
            surplus -= 1
            merged = group[0].fields | entry.fields
            group[0] = ManagerEntry(FieldManager(ANCIENT, "Update", entry.writer.api_version), entry.time, merged)
        else:
            group.append(entry)
    return kept + [entry for group in groups.values() for entry in group]


# What a create, an update or a patch does to the ownership of fields.

# No manager owns what names an object, nor what the server alone decides.
_META = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)
_UNOWNED: frozenset[Path] = frozenset(
    {
        (),
        (field_step("apiVersion"),),
        (field_step("kind"),),
        (field_step("metadata"),),
        *((field_step("metadata"), field_step(name)) for name in _META),
    }
)
Ignored = Callable[[Path], bool]


def owned(fields: Iterable[Path], ignored: Ignored) -> frozenset[Path]:
    """Those of ``fields`` that a manager may own; ``ignored`` says which ones this door does not write."""
    return frozenset(path for path in fields if path not in _UNOWNED and not ignored(path))


def record(
    old: dict[str, Any],
    new: dict[str, Any],
    schema: Schema,
    entries: Sequence[ManagerEntry],
    writer: FieldManager,
    now: str,
    ignored: Ignored,
) -> list[ManagerEntry]:
    """The entries after a write: the writer owns what it changed, and removed fields have no owner.

    Args:
        old: the object before, without ``managedFields``; of a new object what every object of the kind has.
        new: the object that will be stored.
        schema: of the kind.
        entries: as they were.
        writer: who wrote.
        now: RFC 3339.
        ignored: fields that this door cannot write.

    """
    changes = compare(old, new, schema).without(ignored)
    if not changes:
        return list(entries)
    taken = owned(changes.written, ignored)
    mine = next((entry for entry in entries if entry.writer.identity == writer.identity), None)
    others = without((entry for entry in entries if entry is not mine), changes.written | changes.removed)
    held = ((mine.fields - changes.removed) if mine else frozenset()) | taken
    if held:
        moved = mine is None or held != mine.fields or bool(taken)
        others.append(ManagerEntry(writer, now if moved or mine is None else mine.time, held))
    return capped(others)
