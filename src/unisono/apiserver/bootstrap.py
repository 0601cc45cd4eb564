"""What every cluster has from the first moment: namespaces, priority classes, roles, definitions, the first queues."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from unisono.api.base import Object, ObjectMeta
from unisono.api.core import Namespace, PriorityClass
from unisono.api.core.crd import CustomResourceDefinitionStatus
from unisono.api.crds import crd_manifests
from unisono.api.defaulting import apply_defaults
from unisono.api.keys import CONFIG_MAP_NAMESPACE
from unisono.api.kind import Kind
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PRIORITY_CLASSES, QUEUES
from unisono.api.meta import Condition
from unisono.api.scheduling import Queue, QueueSpec
from unisono.apiserver.admission.priority import SYSTEM
from unisono.apiserver.authorization.reconcile import missing_or_outdated
from unisono.apiserver.encoding import codec
from unisono.apiserver.operations import metadata, strategy
from unisono.apiserver.operations.context import Context
from unisono.apiserver.storage.entry import Entry
from unisono.apiserver.storage.store import Change

DEFAULT_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease", CONFIG_MAP_NAMESPACE)


async def bootstrap(context: Context) -> None:
    """Create what is missing, and bring the definitions of the served kinds up to date.

    Raises:
        Unavailable: the disk refuses.
    """
    objects: list[tuple[Kind[Any], Object]] = [
        (NAMESPACES, Namespace(metadata=ObjectMeta(name=name))) for name in DEFAULT_NAMESPACES
    ]
    objects += [
        (PRIORITY_CLASSES, PriorityClass(metadata=ObjectMeta(name=name), value=value)) for name, value in SYSTEM.items()
    ]
    # Jobs may arrive before the first scheduling cycle, and admission needs the queue that they go to.
    objects += [
        (QUEUES, Queue(metadata=ObjectMeta(name="root"), spec=QueueSpec(weight=1, reclaimable=False))),
        (QUEUES, Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(weight=1, parent="root"))),
    ]
    changes = [change for kind, obj in objects if (change := _missing(context, kind, obj))]
    changes += [_current(context, kind, obj) for kind, obj in missing_or_outdated(context)]
    changes += [change for data in _served_definitions() if (change := _definition(context, data))]
    changes += context.quotas.outdated()
    if changes:
        await context.commit(NAMESPACES, changes)


def _missing(context: Context, kind: Kind[Any], obj: Object) -> Change | None:
    if context.store.latest(context.key(kind, None, obj.metadata.name)) is not None:
        return None
    _begin(context, kind, obj)
    strategy.begin_status(obj, kind)
    return context.change(kind, obj, 0)


def _current(context: Context, kind: Kind[Any], obj: Object) -> Change:
    entry = context.store.latest(context.key(kind, None, obj.metadata.name))
    if entry is None:
        _begin(context, kind, obj)
    return context.change(kind, obj, entry.revision if entry else 0)


def _begin(context: Context, kind: Kind[Any], obj: Object) -> None:
    _identify(context, kind, obj)
    apply_defaults(kind, obj)


def _identify(context: Context, kind: Kind[Any], obj: Object) -> None:
    obj.api_version, obj.kind = kind.api_version, kind.kind
    metadata.begin(obj, kind, uid=context.new_uid(), now=context.now(), new_suffix=context.new_suffix)


@cache
def _served_definitions() -> tuple[bytes, ...]:
    """The definitions of the served kinds, accepted; made once, because the schemas are large."""
    kind, made = CUSTOM_RESOURCE_DEFINITIONS, []
    for manifest in crd_manifests():
        stored = [one["name"] for one in manifest["spec"]["versions"] if one["storage"]]
        status = {"acceptedNames": manifest["spec"]["names"], "storedVersions": stored}
        # Written by us, so that nothing in it has to be pruned, and the schemas are too large to look for it.
        definition = msgspec.convert({**manifest, "status": status}, kind.struct)
        definition.api_version, definition.kind = kind.api_version, kind.kind
        apply_defaults(kind, definition)
        made.append(codec.render(definition))
    return tuple(made)


class _Definition(Object):
    """A definition with its spec as bytes: it consists of large schemas, which need not be decoded to be stored."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: CustomResourceDefinitionStatus = msgspec.field(default_factory=CustomResourceDefinitionStatus)


_read_definition = msgspec.json.Decoder(_Definition).decode


def _definition(context: Context, data: bytes) -> Change | None:
    """The definition as it must be stored, established; None when the stored one is equal."""
    kind = CUSTOM_RESOURCE_DEFINITIONS
    wanted = _read_definition(data)
    entry = context.store.latest(context.key(kind, None, wanted.metadata.name))
    if entry is not None:
        return (
            None if bytes(_read_definition(entry.data).spec) == bytes(wanted.spec) else _changed(context, entry, data)
        )
    _identify(context, kind, wanted)
    now = context.now()
    wanted.status.conditions = [
        Condition(type=name, status="True", last_transition_time=now, reason=reason, message=message)
        for name, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    return context.change(kind, wanted, 0)


def _changed(context: Context, entry: Entry, data: bytes) -> Change | None:
    """The stored definition with the spec of ``data``; None when only the order of fields differs."""
    kind = CUSTOM_RESOURCE_DEFINITIONS
    present, wanted = codec.read(kind, entry.data), codec.read(kind, data)
    if present.spec == wanted.spec:
        return None
    present.spec = wanted.spec
    present.metadata.generation = (present.metadata.generation or 0) + 1
    return context.change(kind, present, entry.revision)
