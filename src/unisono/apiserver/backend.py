"""The embedded API without its HTTP surface: store, service, housekeeping, and what every cluster has at first."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from unisono.api.base import Condition, Object, ObjectMeta
from unisono.api.core import Namespace, PriorityClass
from unisono.api.core.crd import CustomResourceDefinitionStatus
from unisono.api.crds import crd_manifests
from unisono.api.defaulting import apply_defaults
from unisono.api.groups.scheduling import Queue, QueueSpec
from unisono.api.keys import CONFIG_MAP_NAMESPACE
from unisono.api.kind import Kind
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PRIORITY_CLASSES, QUEUES
from unisono.apiserver import encoding
from unisono.apiserver.admission import Admission
from unisono.apiserver.admission.pods import SYSTEM
from unisono.apiserver.authorization.roles import missing_or_outdated
from unisono.apiserver.housekeeping.gc import DefaultAccounts, GarbageCollector, NamespaceController, RootCertificates
from unisono.apiserver.housekeeping.objects import DefinitionController, EventExpiry, RoleAggregation
from unisono.apiserver.local import LocalClient
from unisono.apiserver.operations import strategy
from unisono.apiserver.operations.addresses import Pick
from unisono.apiserver.operations.context import Context, random_suffix, random_uid
from unisono.apiserver.operations.service import ObjectService
from unisono.apiserver.storage.database import MEMORY
from unisono.apiserver.storage.objects import Retention, StoredEntry
from unisono.apiserver.storage.store import Change, Disk, Store, Writer
from unisono.kube.clock import SYSTEM_CLOCK, Clock

# What every cluster has from the first moment: namespaces, priority classes, roles, definitions, the first queues.

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
    strategy.begin(obj, kind, uid=context.new_uid(), now=context.now(), new_suffix=context.new_suffix)


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
        made.append(encoding.render(definition))
    return tuple(made)


class _Definition(Object):
    """A definition with its spec as bytes: it consists of large schemas, which need not be decoded to be stored."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: CustomResourceDefinitionStatus = msgspec.field(default_factory=CustomResourceDefinitionStatus)


_read_definition = msgspec.json.Decoder(_Definition).decode


def _definition(context: Context, data: bytes) -> Change | None:
    """The definition as it must be stored, established; None when the stored one is equal."""
    kind = CUSTOM_RESOURCE_DEFINITIONS
    desired = _read_definition(data)
    entry = context.store.latest(context.key(kind, None, desired.metadata.name))
    if entry is not None:
        return (
            None if bytes(_read_definition(entry.data).spec) == bytes(desired.spec) else _changed(context, entry, data)
        )
    _identify(context, kind, desired)
    now = context.now()
    desired.status.conditions = [
        Condition(type=name, status="True", last_transition_time=now, reason=reason, message=message)
        for name, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    return context.change(kind, desired, 0)


def _changed(context: Context, entry: StoredEntry, data: bytes) -> Change | None:
    """The stored definition with the spec of ``data``; None when only the order of fields differs."""
    kind = CUSTOM_RESOURCE_DEFINITIONS
    present, desired = encoding.read(kind, entry.data), encoding.read(kind, data)
    if present.spec == desired.spec:
        return None
    present.spec = desired.spec
    present.metadata.generation = (present.metadata.generation or 0) + 1
    return context.change(kind, present, entry.revision)


# The embedded API without its HTTP surface: store, service, garbage collector and the other housekeepers, together.


class Backend:
    """Open with ``Backend.open``; ``service`` is what HTTP and local clients use."""

    def __init__(self, service: ObjectService, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.service, self.store, self._clock = service, service.store, clock
        certificates = RootCertificates(service.context, clock=clock)
        kinds = (GarbageCollector, NamespaceController, DefinitionController, DefaultAccounts, RoleAggregation)
        self._controllers = (*(kind(service.context, clock=clock) for kind in kinds), certificates)
        self._expiry = EventExpiry(service.context, clock=clock)
        service.on_certificate(certificates.publish)

    @classmethod
    async def open(
        cls,
        path: Path | str = MEMORY,
        *,
        admission: Admission | None = None,
        clock: Callable[[], float] = time.time,
        timers: Clock = SYSTEM_CLOCK,
        new_uid: Callable[[], str] = random_uid,
        new_suffix: Callable[[], str] = random_suffix,
        retention: Retention | None = None,
        disk: Disk | None = None,
        writer: type[Writer] = Writer,
        pick: Pick = secrets.randbelow,
    ) -> Backend:
        """Open or create the data file, create what every cluster has, and start housekeeping.

        ``disk`` stands in for the file.

        Raises:
            StoreError: the file is foreign, damaged or in use.
        """
        store = await Store.open(path, clock=clock, retention=retention, disk=disk, writer=writer)
        try:
            service = ObjectService(
                store, admission=admission, clock=clock, new_uid=new_uid, new_suffix=new_suffix, pick=pick
            )
            await bootstrap(service.context)
            backend = cls(service, clock=timers)
            backend._start()
        except BaseException:
            await store.close()
            raise
        return backend

    def client(self, user: str = "system:admin", field_manager: str = "unisono") -> LocalClient:
        """A client in this process."""
        return LocalClient(self.service, user=user, field_manager=field_manager, clock=self._clock)

    @property
    def idle(self) -> bool:
        """Housekeeping has nothing to do, and every queued write is visible."""
        return all(one.idle for one in self._controllers) and not self.store.statistics()["pending"]

    async def close(self) -> None:
        """End housekeeping and watches, finish queued writes, close the file."""
        for one in self._controllers:
            await one.stop()
        await self._expiry.stop()
        await self.service.context.hooks.close()
        await self.store.close()

    def _start(self) -> None:
        for one in self._controllers:
            one.start()
        self._expiry.start()
