"""What a namespace may take: quotas, limit ranges, claims, and bytes in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from unisono.api.base import Object, Quantity, ResourceList
from unisono.api.core import Container, LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod, ResourceQuota
from unisono.api.keys import MASTERS, NODES_GROUP
from unisono.api.kind import Kind
from unisono.api.kinds import EVENTS, LEASES, LIMIT_RANGES, RESOURCE_QUOTAS, STORAGE_CLASSES
from unisono.api.pod_states import qos_class
from unisono.api.quantity import canonical, parse_quantity
from unisono.api.quota import Usage, counts, resources_behind, unspecified, usage_of
from unisono.api.resources import pod_limits, pod_requests, resource_list, to_wire
from unisono.api.volumes import class_of_claim, default_class, has_class, stored_bytes
from unisono.apiserver import encoding
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import forbidden
from unisono.apiserver.storage.objects import Event, StoredEntry
from unisono.apiserver.storage.store import Change, Store

# Accounts of resource quotas: ``status.used`` changes in the same transaction as the objects that it counts.
#
# Every write of the store passes ``follow``, which adds the quotas that the write touches. What a quota says is
# therefore always true, after a crash as well, and admission compares with it without a race: nothing comes between
# reading the quota and queueing the object together with the quota's new account.

_QUOTAS = RESOURCE_QUOTAS.resource
# Kinds whose objects use more than their own number.
_MEASURED = frozenset(("pods", "services", "persistentvolumeclaims"))


class QuotaLedger:
    """Knows which namespaces have quotas.

    Args:
        store: the objects.
        kinds: stored kinds by resource; may grow.
    """

    def __init__(self, store: Store, kinds: Mapping[str, Kind[Any]]) -> None:
        self._store, self._kinds = store, kinds
        self._names: dict[str, set[str]] = {}
        for entry in store.scan(_QUOTAS):
            self._names.setdefault(entry.namespace, set()).add(entry.name)
        store.listen(self._on_event)

    def follow(self, changes: Sequence[Change]) -> list[Change]:
        """Changes of quotas that belong to ``changes``; quotas among ``changes`` get their status in place."""
        if not self._names and not any(change.key[0] == _QUOTAS for change in changes):
            return []
        accounts = _Accounts(self._quota, {change.key[1:] for change in changes if change.key[0] == _QUOTAS})
        for change in changes:
            if change.key[0] == _QUOTAS and not change.delete:
                self._names.setdefault(change.key[1], set()).add(change.key[2])
        for change in changes:
            names = self._names.get(change.key[1])
            if names:
                self._move(change, names, accounts)
        for change in changes:
            if change.key[0] == _QUOTAS and isinstance(change.obj, ResourceQuota) and not change.delete:
                self._measure(change.obj, changes)
        return accounts.changes()

    def outdated(self) -> list[Change]:
        """Quotas whose accounts are not right, with the right ones: for data of an earlier version."""
        changes = []
        for entry in self._store.scan_latest(_QUOTAS):
            quota = encoding.read(RESOURCE_QUOTAS, entry.data)
            before = quota.status
            self._measure(quota, ())
            if quota.status != before:
                changes.append(_change(quota, entry.revision))
        return changes

    def _move(self, change: Change, names: Iterable[str], accounts: _Accounts) -> None:
        kind = self._kinds.get(change.key[0])
        if kind is None:
            return
        entry = self._store.latest(change.key)
        before = None if entry is None else self._object(kind, entry)
        after = None if change.delete else change.obj
        used_before = {} if entry is None else usage_of(kind, before)
        used_after = {} if change.delete else usage_of(kind, after)
        if used_before == used_after and kind.resource != "pods":
            return
        for name in names:
            quota = accounts.quota(change.key[1], name)
            if quota is None:
                continue
            left = used_before if entry is not None and counts(quota, before) else {}
            came = used_after if not change.delete and counts(quota, after) else {}
            accounts.add(quota, {each: came.get(each, 0) - left.get(each, 0) for each in {*left, *came}})

    def _measure(self, quota: ResourceQuota, changes: Sequence[Change]) -> None:
        """Count again everything that the quota limits, as it will be after ``changes``."""
        hard = quota.spec.hard or {}
        namespace = quota.metadata.namespace or ""
        used: Usage = dict.fromkeys(hard, 0)
        changed = {change.key: change for change in changes if change.key[1] == namespace}
        for resource in resources_behind(hard):
            kind = self._kinds.get(resource)
            if kind is None:
                continue
            present = [entry for entry in self._store.scan_latest(resource, namespace) if entry.key not in changed]
            objects = [self._object(kind, entry) for entry in present]
            objects += [one.obj for key, one in changed.items() if key[0] == resource and not one.delete]
            for obj in objects:
                if counts(quota, obj):
                    for name, amount in usage_of(kind, obj).items():
                        if name in used:
                            used[name] += amount
        quota.status = type(quota.status)(hard=dict(hard) or None, used=dict(to_wire(used)) or None)

    def _object(self, kind: Kind[Any], entry: StoredEntry) -> Object | None:
        return encoding.read(kind, entry.data) if kind.resource in _MEASURED else None

    def _quota(self, namespace: str, name: str) -> tuple[ResourceQuota, int] | None:
        entry = self._store.latest((_QUOTAS, namespace, name))
        return None if entry is None else (encoding.read(RESOURCE_QUOTAS, entry.data), entry.revision)

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if entry.resource != _QUOTAS or event.type != "DELETED":
            return
        if self._store.latest(entry.key) is None:
            names = self._names.get(entry.namespace, set())
            names.discard(entry.name)
            if not names:
                self._names.pop(entry.namespace, None)


class _Accounts:
    """The quotas that one transaction touches, each read once; ``own`` are written by the transaction itself."""

    def __init__(self, read: Callable[[str, str], tuple[ResourceQuota, int] | None], own: set[tuple[str, ...]]) -> None:
        self._read, self._own = read, own
        self._found: dict[tuple[str, str], tuple[ResourceQuota, int] | None] = {}
        self._touched: set[tuple[str, str]] = set()

    def quota(self, namespace: str, name: str) -> ResourceQuota | None:
        """The quota, unless the transaction writes it anyway."""
        key = namespace, name
        if key in self._own:
            return None
        if key not in self._found:
            self._found[key] = self._read(namespace, name)
        entry = self._found[key]
        return entry[0] if entry else None

    def add(self, quota: ResourceQuota, difference: Usage) -> None:
        """Change what is used of the resources that the quota limits."""
        hard = quota.status.hard or {}
        moved = {name: amount for name, amount in difference.items() if amount and name in hard}
        if not moved:
            return
        used = resource_list(quota.status.used)
        now = {name: max(0, used.get(name, 0) + amount) for name, amount in moved.items()}
        quota.status.used = {**(quota.status.used or {}), **to_wire(now)}
        self._touched.add((quota.metadata.namespace or "", quota.metadata.name))

    def changes(self) -> list[Change]:
        """Writes of the quotas that are not as they were."""
        touched = [self._found[key] for key in sorted(self._touched)]
        return [_change(quota, revision) for one in touched if one for quota, revision in (one,)]


def _change(quota: ResourceQuota, revision: int) -> Change:
    key = (_QUOTAS, quota.metadata.namespace or "", quota.metadata.name)
    return Change(key, revision, lambda assigned: encoding.write(quota, assigned), obj=quota)


# ResourceQuota: nothing is created, or grows, beyond what a namespace may use.


def check_quotas(request: Request, view: View) -> None:
    """Compare what the object adds with what every quota of its namespace has left.

    Raises:
        ApiError: 403 naming the quota, what was asked for, what is used and what the limit is.
    """
    if request.operation == "DELETE" or not request.kind.namespaced or request.subresource:
        return
    quotas = [quota for quota in view.all(RESOURCE_QUOTAS, request.namespace) if quota.status.hard]
    if not quotas or (request.kind is RESOURCE_QUOTAS and request.operation == "UPDATE"):
        return
    used = usage_of(request.kind, request.object)
    before = usage_of(request.kind, request.old) if request.old is not None else {}
    for quota in sorted(quotas, key=lambda one: one.metadata.name):
        if not counts(quota, request.object):
            continue
        if request.operation == "CREATE" and isinstance(request.object, Pod):
            missing = unspecified(request.object, quota.status.hard or ())
            if missing:
                raise forbidden(request.kind, request.name, f"failed quota: {quota.metadata.name}: {missing}")
        previous = before if request.old is not None and counts(quota, request.old) else {}
        _compare(request, quota, {name: amount - previous.get(name, 0) for name, amount in used.items()})


def _compare(request: Request, quota: ResourceQuota, wanted: Usage) -> None:
    hard, used = resource_list(quota.status.hard), resource_list(quota.status.used)
    exceeded = [
        name
        for name in sorted(wanted)
        if name in hard and wanted[name] > 0 and used.get(name, 0) + wanted[name] > hard[name]
    ]
    if not exceeded:
        return
    asked = _listed(exceeded, to_wire({name: wanted[name] for name in exceeded}))
    taken = _listed(exceeded, quota.status.used or {})
    limit = _listed(exceeded, quota.status.hard or {})
    why = f"exceeded quota: {quota.metadata.name}, requested: {asked}, used: {taken}, limited: {limit}"
    raise forbidden(request.kind, request.name, why)


def _listed(names: Iterable[str], amounts: ResourceList | Mapping[str, str]) -> str:
    return ",".join(f"{name}={amounts.get(name, 0)}" for name in names)


# LimitRange: defaults for what containers leave out, and bounds on what containers, pods and claims ask for.

ANNOTATION = "kubernetes.io/limit-ranger"
Amounts = Mapping[str, Quantity]


def fill_in(request: Request, view: View) -> None:
    """Give containers the default requests and limits of their namespace, and say so in an annotation."""
    if request.operation != "CREATE":
        return
    pod: Pod = request.object
    notes: list[str] = []
    for limits in _of(request, view):
        for item in limits.spec.limits:
            if item.type == "Container":
                notes += _complete(pod, item)
    if notes:
        note = f"LimitRanger plugin set: {'; '.join(notes)}"
        pod.metadata.annotations = {**(pod.metadata.annotations or {}), ANNOTATION: note}
        pod.status.qos_class = qos_class(pod.spec)


def check_limit_ranges(request: Request, view: View) -> None:
    """Compare with the bounds of the namespace.

    Raises:
        ApiError: 403 naming every bound that is broken.
    """
    if request.subresource or request.operation == "DELETE":
        return
    obj = request.object
    if isinstance(obj, Pod) and request.operation != "CREATE":
        return  # what a pod asks for does not change
    for limits in _of(request, view):
        problems = [problem for item in limits.spec.limits for problem in _problems(item, obj)]
        if problems:
            why = problems[0] if len(problems) == 1 else f"[{', '.join(dict.fromkeys(problems))}]"
            raise forbidden(request.kind, request.name, why)


def _of(request: Request, view: View) -> list[LimitRange]:
    return sorted(view.all(LIMIT_RANGES, request.namespace), key=lambda one: one.metadata.name)


def _complete(pod: Pod, item: LimitRangeItem) -> Iterator[str]:
    for word, containers in (("container", pod.spec.containers), ("init container", pod.spec.init_containers)):
        for container in containers or ():
            yield from _complete_container(container, item, word)


def _complete_container(container: Container, item: LimitRangeItem, word: str) -> Iterator[str]:
    resources = container.resources
    for side, defaults in (("requests", item.default_request), ("limits", item.default)):
        given = getattr(resources, side) or {}
        added = {name: amount for name, amount in (defaults or {}).items() if name not in given}
        if added:
            setattr(resources, side, {**given, **added})
            yield f"{', '.join(sorted(added))} {side[:-1]} for {word} {container.name}"


def _problems(item: LimitRangeItem, obj: object) -> Iterator[str]:
    if isinstance(obj, Pod) and item.type == "Container":
        for container in (*(obj.spec.containers or ()), *(obj.spec.init_containers or ())):
            yield from _broken(item, container.resources.requests or {}, container.resources.limits or {})
    elif isinstance(obj, Pod) and item.type == "Pod":
        yield from _broken(item, to_wire(pod_requests(obj.spec)), to_wire(pod_limits(obj.spec)))
    elif isinstance(obj, PersistentVolumeClaim) and item.type == "PersistentVolumeClaim":
        requests = obj.spec.resources.requests or {}
        for name, bound in sorted((item.min or {}).items()):
            yield from _too_little(item.type, name, bound, requests, {})
        for name, bound in sorted((item.max or {}).items()):
            # Claims have no limits: what they request is what they get.
            yield from _too_much(item.type, name, bound, requests, requests)


def _broken(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in sorted((item.min or {}).items()):
        yield from _too_little(item.type, name, bound, requests, limits)
    for name, bound in sorted((item.max or {}).items()):
        yield from _too_much(item.type, name, bound, requests, limits)
    for name, bound in sorted((item.max_limit_request_ratio or {}).items()):
        yield from _out_of_proportion(item.type, name, bound, requests, limits)


def _too_little(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start = f"minimum {name} usage per {kind} is {canonical(bound)}"
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif parse_quantity(requests[name]) < parse_quantity(bound):
        yield f"{start}, but request is {canonical(requests[name])}"
    elif name in limits and parse_quantity(limits[name]) < parse_quantity(bound):
        yield f"{start}, but limit is {canonical(limits[name])}"


def _too_much(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start = f"maximum {name} usage per {kind} is {canonical(bound)}"
    word = "request" if limits is requests else "limit"
    if name not in limits:
        yield f"{start}.  No {word} is specified"
    elif parse_quantity(limits[name]) > parse_quantity(bound):
        yield f"{start}, but {word} is {canonical(limits[name])}"
    elif name in requests and parse_quantity(requests[name]) > parse_quantity(bound):
        yield f"{start}, but request is {canonical(requests[name])}"


def _out_of_proportion(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start = f"{name} max limit to request ratio per {kind} is {canonical(bound)}"
    request, limit = (parse_quantity(side.get(name, 0)) for side in (requests, limits))
    if not request:
        yield f"{start}, but no request is specified or request is 0"
    elif not limit:
        yield f"{start}, but no limit is specified or limit is 0"
    elif limit / request > parse_quantity(bound):
        yield f"{start}, but provided ratio is {float(limit / request):f}"


# No namespace stores more bytes than its share of the server's memory.

_MIB = 1024 * 1024
# The control plane's own notes say what is wrong there, and keep what runs alive.
_NOTES = frozenset((EVENTS.resource, LEASES.resource))


def check_storage_room(stored: Callable[[str], int], most: int, request: Request, _: View) -> None:
    """Refuse what makes a full namespace larger; what runs there goes on, and what shrinks or deletes is taken.

    Args:
        stored: bytes that the objects of a namespace take.
        most: bytes that they may take; the last object may exceed it by its own size.
        request: a write to any namespace.

    Raises:
        ApiError: 403 with both figures.
    """
    if request.operation not in ("CREATE", "UPDATE") or not request.namespace or stored(request.namespace) < most:
        return
    if not isinstance(request.object, Object):
        return
    own = not request.user or MASTERS in request.groups or NODES_GROUP in request.groups
    if own and (request.operation == "UPDATE" or request.kind.resource in _NOTES):
        return
    if request.old is not None and len(encoding.render(request.object)) <= len(encoding.render(request.old)):
        return
    why = (
        f'the objects of namespace "{request.namespace}" take {stored(request.namespace) / _MIB:.3g} MiB, '
        f"and may take {most / _MIB:.3g} MiB; delete some, "
        "or have an administrator raise the API limit namespace_bytes"
    )
    raise forbidden(request.kind, request.name, why)


# PersistentVolumeClaims: the default storage class, and which of them may grow.


def choose_class(request: Request, view: View) -> None:
    """Give a claim that names no class the default one; an empty name means none."""
    claim: PersistentVolumeClaim = request.object
    if request.operation != "CREATE" or has_class(claim):
        return
    storage_class = default_class(view.all(STORAGE_CLASSES))
    if storage_class is not None:
        claim.spec.storage_class_name = storage_class.metadata.name


def check_growth(request: Request, view: View) -> None:
    """A claim grows only where its class allows that.

    Raises:
        ApiError: 403 when it does not.
    """
    if request.operation != "UPDATE" or request.subresource:
        return
    claim: PersistentVolumeClaim = request.object
    old: PersistentVolumeClaim = request.old
    if stored_bytes(claim.spec.resources.requests) <= stored_bytes(old.spec.resources.requests):
        return
    name = class_of_claim(old)
    storage_class = view.find(STORAGE_CLASSES, name) if name else None
    if storage_class is None or not storage_class.allow_volume_expansion:
        why = (
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
            "support resize"
        )
        raise forbidden(request.kind, request.name, why)
