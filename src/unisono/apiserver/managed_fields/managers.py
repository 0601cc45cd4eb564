"""The entries of ``metadata.managedFields``, what each write makes of them, and server-side apply."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar

import msgspec

from unisono.api.field_error import UNREADABLE
from unisono.api.keys import LAST_APPLIED
from unisono.apiserver.managed_fields import paths
from unisono.errors import ApiError, Conflict

# The entries of ``metadata.managedFields``, and what a create, an update or a patch does to them.

# Objects of one outline have the same fields: values that no ownership depends on are left out, answers are kept.

T = TypeVar("T", bound=Sized)


def telling(schema: paths.Schema) -> frozenset[str]:
    """Names of fields whose values tell items of lists apart, anywhere in a schema, and of lists that are sets."""
    names: set[str] = set()
    seen: set[int] = set()
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        names.update(node.get("x-kubernetes-list-map-keys", ()))
        for name, each in node.items():
            if isinstance(each, dict) and each.get("x-kubernetes-list-type") == "set":
                names.add(name)
            waiting.append(each)
    return frozenset(names)


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
        result = find()
        if len(result) >= self._largest:
            return result
        self._answers[question] = result
        if len(self._answers) > self._most:
            self._answers.popitem(last=False)
        return result


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
        return (self.name, self.operation, "" if self.operation == "Apply" else self.api_version, self.subresource)


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
    fields: paths.Paths = paths.NONE
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
    return ManagerEntry(writer, time, paths.from_tree(entry.get("fieldsV1") or {}), entry)


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
        "fieldsV1": paths.to_tree(entry.fields),
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
_UNOWNED: frozenset[paths.Path] = frozenset(
    {
        (),
        (paths.field_step("apiVersion"),),
        (paths.field_step("kind"),),
        (paths.field_step("metadata"),),
        *((paths.field_step("metadata"), paths.field_step(name)) for name in _META),
    }
)
Ignored = Callable[[paths.Path], bool]


def owned(fields: Iterable[paths.Path], ignored: Ignored) -> frozenset[paths.Path]:
    """Those of ``fields`` that a manager may own; ``ignored`` says which ones this door does not write."""
    return frozenset(path for path in fields if path not in _UNOWNED and not ignored(path))


def record(
    old: dict[str, Any],
    new: dict[str, Any],
    schema: paths.Schema,
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
    changes = paths.compare(old, new, schema).without(ignored)
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


# Server-side apply: a configuration is merged into an object, and its writer owns exactly the fields in it.


# Merging an applied configuration into an object, and taking fields out of it.


def merge(live: Any, config: Any, schema: paths.Schema) -> Any:
    """``live`` with what ``config`` says; shares parts with both, changes neither.

    ``fields_of`` has accepted the configuration: its list items have keys, and no two the same.
    """
    if type(live) is not type(config) or paths.atomic(config, schema):
        return config
    if isinstance(config, dict):
        result = dict(live)
        for name, value in config.items():
            below = paths.child(schema, name)
            result[name] = merge(live[name], value, below) if name in live else value
        return result
    return _merge_lists(live, config, schema)


def _merge_lists(live: list[Any], config: list[Any], schema: paths.Schema) -> list[Any]:
    """Items of the configuration in its order; others stay before the item that followed them."""
    configured = {paths.element(each, schema): each for each in config}
    below = paths.items(schema)
    before = [(paths.element(each, schema), each) for each in live]
    live_by_element = paths.index(live, schema)
    result, position = [], 0
    for element, value in configured.items():
        values = live_by_element.get(element, [])
        while position < len(before):
            if before[position][0] not in configured:
                result.append(before[position][1])
            elif not values or before[position][0] == element:
                # The turn of a shared item: items that only the configuration has come before it.
                break
            position += 1
        # An item that the object holds several times is replaced by the one of the configuration.
        result.append(merge(values[0], value, below) if len(values) == 1 else value)
    result.extend(each for element, each in before[position:] if element not in configured)
    return result


def remove(value: Any, members: paths.Paths, schema: paths.Schema) -> Any:
    """``value`` without the fields of ``members``, and without what is below them."""
    return _remove(value, paths.to_tree(members), schema) if members else value


def _remove(value: Any, tree: paths.Tree, schema: paths.Schema) -> Any:
    if not isinstance(value, dict | list) or paths.atomic(value, schema):
        return value
    if isinstance(value, dict):
        kept = {}
        for name, each in value.items():
            node = tree.get(f"f:{name}")
            if node is None:
                kept[name] = each
            elif not _member(node):
                kept[name] = _remove(each, node, paths.child(schema, name))
        return kept
    left = []
    for each in value:
        node = tree.get(paths.element(each, schema))
        if node is None:
            left.append(each)
        elif not _member(node):
            left.append(_remove(each, node, paths.items(schema)))
    return left


def _member(node: paths.Tree) -> bool:
    return not node or paths.MEMBER in node


# The words and causes of a conflict between an applied configuration and the owners of its fields.

# A field and the entry of its owner.
Clash = tuple[ManagerEntry, paths.Path]


def clashes(entries: Iterable[ManagerEntry], writer: FieldManager, written: set[paths.Path]) -> list[Clash]:
    """Fields in ``written`` that others than ``writer`` own."""
    return [
        (entry, path)
        for entry in sorted(entries, key=lambda each: each.writer.identity)
        if entry.writer.identity != writer.identity
        for path in sorted(entry.fields & written)
    ]


def apply_conflict(found: Sequence[Clash]) -> Conflict:
    """409 that names each owner and field."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_owner(entry)}", "field": paths.text(path)}
        for entry, path in found
    ]
    return Conflict(_message(found), details={"causes": causes})


def _message(found: Sequence[Clash]) -> str:
    if len(found) == 1:
        entry, path = found[0]
        return f"Apply failed with 1 conflict: conflict with {_owner(entry)}: {paths.text(path)}"
    lines: list[str] = []
    last: ManagerEntry | None = None
    for entry, path in found:
        if entry is not last:
            lines.append(f"conflicts with {_owner(entry)}:")
            last = entry
        lines.append(f"- {paths.text(path)}")
    return f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)


def _owner(entry: ManagerEntry) -> str:
    writer = entry.writer
    named = json.dumps(writer.name, ensure_ascii=False)
    if writer.subresource:
        named += f' with subresource "{writer.subresource}"'
    return named if writer.operation == "Apply" else f"{named} using {writer.api_version}"


# From client-side to server-side apply: the annotation in which kubectl keeps what it applied last.

# Only for kubectl's own name: who applies under another one decides about conflicts itself.
KUBECTL = "kubectl"


def allowed_by_last_applied(live: dict[str, Any], schema: paths.Schema, writer: FieldManager) -> paths.Paths:
    """Fields that client-side apply wrote and that are still as it wrote them: kubectl may take them over."""
    text = _annotations(live).get(LAST_APPLIED)
    if writer.name != KUBECTL or not isinstance(text, str):
        return paths.NONE
    try:
        last = msgspec.json.decode(text)
        if not isinstance(last, dict) or last.get("apiVersion") != writer.api_version:
            return paths.NONE
        changes = paths.compare(last, live, schema)
        return paths.fields_of(last, schema) - changes.written - changes.removed
    except (*UNREADABLE, ApiError):
        return paths.NONE


def renewed(merged: dict[str, Any], config: dict[str, Any], writer: FieldManager) -> dict[str, Any]:
    """The object with the annotation brought up to date, if it has one and kubectl applies."""
    if writer.name != KUBECTL or not _annotations(merged).get(LAST_APPLIED):
        return merged
    metadata = dict(config.get("metadata") or {})
    annotations = {key: value for key, value in _annotations(config).items() if key != LAST_APPLIED}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    last = msgspec.json.encode({**config, "metadata": metadata}, order="deterministic").decode() + "\n"
    present = {**_annotations(merged), LAST_APPLIED: last}
    return {**merged, "metadata": {**merged["metadata"], "annotations": present}}


def _annotations(value: dict[str, Any]) -> dict[str, Any]:
    metadata = value.get("metadata")
    texts = metadata.get("annotations") if isinstance(metadata, dict) else None
    return texts if isinstance(texts, dict) else {}


# Server-side apply: a configuration is merged into an object, and its writer owns exactly the fields it names.

# Owner of everything that an object had when it was first applied to and had no recorded owner.
BEFORE = "before-first-apply"


@dataclass(frozen=True, slots=True)
class Applied:
    """The merged object and who owns what in it."""

    object: dict[str, Any]
    entries: list[ManagerEntry]


def apply(
    live: dict[str, Any],
    config: dict[str, Any],
    schema: paths.Schema,
    entries: Sequence[ManagerEntry],
    writer: FieldManager,
    now: str,
    ignored: Ignored,
    *,
    empty: dict[str, Any] | None = None,
    force: bool = False,
) -> Applied:
    """Merge ``config`` into ``live``; what the writer applied before and not now goes if it has no other owner.

    Args:
        live: the object, without ``managedFields``; of a new one what every object of the kind has.
        config: what the writer wants, without nulls and unknown fields.
        schema: of the kind.
        entries: who owns what in ``live``.
        writer: who applies.
        now: RFC 3339.
        ignored: fields that this door cannot write.
        empty: what every object of the kind has; None when ``live`` is a new object.
        force: take the fields of others instead of failing.

    Raises:
        Conflict: others own fields that ``config`` would change; one cause for each.
        ApiError: 400 when list items cannot be told from each other.
    """
    current_entries = existing_only(entries, live, schema)
    if not current_entries and empty is not None:
        before = FieldManager(BEFORE, "Update", writer.api_version)
        current_entries = record(empty, live, schema, [], before, now, lambda _: False)
    mine = next((entry for entry in current_entries if entry.writer.identity == writer.identity), None)
    others = [entry for entry in current_entries if entry is not mine]
    fields = owned(paths.fields_of(config, schema), ignored)
    merged = merge(live, config, schema)
    if mine is not None:
        merged = remove(merged, _dropped(mine.fields, fields, others, schema), schema)
    changes = paths.compare(live, merged, schema).without(ignored)
    conflicts = clashes(others, writer, changes.written)
    if conflicts and not force:
        allowed = allowed_by_last_applied(live, schema, writer)
        conflicts = [each for each in conflicts if each[1] not in allowed]
        if conflicts:
            raise apply_conflict(conflicts)
    left = without(others, changes.written | changes.removed)
    if fields:
        same = mine is not None and mine.fields == fields and not changes
        left.append(ManagerEntry(writer, mine.time if same and mine else now, fields))
    return Applied(renewed(merged, config, writer), left)


def existing_only(entries: Sequence[ManagerEntry], live: dict[str, Any], schema: paths.Schema) -> list[ManagerEntry]:
    """The entries without fields that the object has lost unseen: an owner of nothing cannot object."""
    present = paths.all_fields(live, schema) if entries else paths.NONE
    return [
        entry if entry.fields <= present else replace(entry, fields=entry.fields & present, wire=None)
        for entry in entries
    ]


def _dropped(
    last: paths.Paths, fields: paths.Paths, others: Sequence[ManagerEntry], schema: paths.Schema
) -> paths.Paths:
    """Fields that were applied last time and have no owner any more."""
    if last <= fields:
        return paths.NONE
    held = fields.union(*(entry.fields for entry in others))
    # The object's name stays, whatever manager owns the rest of its metadata.
    return paths.with_parents(last, schema) - paths.with_parents(held, schema) - {(paths.field_step("metadata"),)}
