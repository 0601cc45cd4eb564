"""Subresources that are more than a part of the object: binding and eviction of pods, and the scale of a kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from unisono.api import field_error
from unisono.api.core import Pod, PodCondition
from unisono.api.documents import apply_merge_patch
from unisono.api.kind import Kind
from unisono.api.kinds import PODS
from unisono.apiserver import encoding, failures, managed_fields
from unisono.apiserver.admission import Request
from unisono.apiserver.custom import definitions as scales
from unisono.apiserver.custom.definitions import SCALES
from unisono.apiserver.flow_control import aside
from unisono.apiserver.managed_fields.managers import without
from unisono.apiserver.managed_fields.paths import Path, field_step
from unisono.apiserver.operations import deletion, field_owners, strategy, writes
from unisono.apiserver.operations.context import Context, Write
from unisono.apiserver.operations.writes import apply_patch, check_type
from unisono.apiserver.storage.objects import StoredEntry
from unisono.apiserver.types import DeleteOptions, PatchType, WriteOptions, Written
from unisono.errors import Conflict

# The pod subresources that act: binding and eviction.

_EVICTED = "Eviction API: evicting"
Document = dict[str, Any]
Texts = dict[str, str]


async def bind(context: Context, namespace: str, name: str, binding: Document, options: WriteOptions) -> list[str]:
    """Assign a pod to a node; see ``ObjectService.bind``."""
    node, uid, labels, annotations = _read_binding(name, binding)
    shown, warnings = await _shown(context, namespace, name, "binding", ("v1", "Binding"), binding, options)
    if shown is not binding:
        node, uid, labels, annotations = _read_binding(name, shown)
    entry, pod = context.current(PODS, namespace, name)
    if uid and uid != pod.metadata.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {pod.metadata.uid}"
        raise failures.conflict(PODS, name, why, subresource="binding")
    if pod.metadata.deletion_timestamp:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise failures.conflict(PODS, name, why, subresource="binding")
    if pod.spec.node_name:
        why = f'pod {name} is already assigned to node "{pod.spec.node_name}"'
        raise failures.conflict(PODS, name, why, subresource="binding")
    if pod.spec.scheduling_gates:
        why = f"pod {name} has non-empty .spec.schedulingGates"
        raise failures.conflict(PODS, name, why, subresource="binding")
    pod.spec.node_name = node
    if labels:
        pod.metadata.labels = {**(pod.metadata.labels or {}), **labels}
    if annotations:
        pod.metadata.annotations = {**(pod.metadata.annotations or {}), **annotations}
    pod.metadata.generation = (pod.metadata.generation or 0) + 1
    set_condition(pod, PodCondition(type="PodScheduled", status="True"), context.now())
    if not options.dry_run:
        await context.put(PODS, pod, entry.revision)
    return warnings


async def evict(context: Context, namespace: str, name: str, eviction: Document, options: WriteOptions) -> list[str]:
    """Delete a pod for a client that needs its node; see ``ObjectService.evict``."""
    eviction, warnings = await _shown(
        context, namespace, name, "eviction", ("policy/v1", "Eviction"), eviction, options
    )
    delete_options = DeleteOptions.from_body(eviction.get("deleteOptions"), dry_run=options.dry_run, user=options.user)
    entry, pod = context.current(PODS, namespace, name)
    deletion.check_preconditions(pod, PODS, delete_options)
    terminating = pod.metadata.deletion_timestamp is not None
    if not terminating:
        message = _EVICTED
        condition = PodCondition(
            type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI", message=message
        )
        set_condition(pod, condition, context.now())
    gone = deletion.mark(pod, PODS, delete_options, context.clock())
    if delete_options.dry_run or (terminating and not gone and encoding.render(pod) == entry.data):
        return warnings
    await context.commit(PODS, [context.change(PODS, pod, entry.revision, delete=gone)])
    return warnings


async def _shown(
    context: Context,
    namespace: str,
    name: str,
    subresource: str,
    shown_as: tuple[str, str],
    document: Document,
    options: WriteOptions,
) -> tuple[Document, list[str]]:
    """What webhooks make of a binding or an eviction, and their warnings; without webhooks it stays as it is."""
    if not context.hooks.present:
        return document, []
    metadata = document.get("metadata")
    named = {"name": name, "namespace": namespace}
    shown = {**document, "metadata": {**metadata, **named} if isinstance(metadata, dict) else named}
    request = Request(
        "CREATE",
        PODS,
        namespace,
        name,
        shown,
        subresource=subresource,
        user=options.user,
        groups=options.groups,
        shown_as=shown_as,
    )
    warnings = await context.hooks.show(request, dry_run=options.dry_run)
    return request.object, warnings


def set_condition(pod: Pod, condition: PodCondition, now: str) -> None:
    """Add or replace the condition of that type; the transition time moves only when the status changes."""
    conditions = list(pod.status.conditions or ())
    at = next((i for i, one in enumerate(conditions) if one.type == condition.type), None)
    if at is None:
        condition.last_transition_time = now
        conditions.append(condition)
    else:
        same = conditions[at].status == condition.status
        condition.last_transition_time = conditions[at].last_transition_time if same else now
        conditions[at] = condition
    pod.status.conditions = conditions


def _read_binding(name: str, binding: Document) -> tuple[str, str | None, Texts, Texts]:
    """The node, the pod's uid, and labels and annotations for the pod."""
    target, meta = binding.get("target"), binding.get("metadata") or {}
    node = target.get("name") if isinstance(target, dict) else None
    if not isinstance(target, dict) or not isinstance(node, str) or not node:
        raise failures.invalid(PODS, name, [field_error.required("target.name")])
    if target.get("kind") not in (None, "", "Node", "Minion"):
        error = field_error.not_supported("target.kind", target["kind"], ["Node", "Minion", "<empty>"])
        raise failures.invalid(PODS, name, [error])
    labels, annotations = ((meta.get(key) or {} if isinstance(meta, dict) else {}) for key in ("labels", "annotations"))
    texts = _texts(labels) and _texts(annotations)
    uid = meta.get("uid") if isinstance(meta, dict) else None
    if not isinstance(meta, dict) or not texts or not isinstance(uid, str | None):
        raise failures.bad_request("the metadata of a Binding must be an object with text annotations and labels")
    if meta.get("name") not in (None, "", name):
        raise failures.bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        )
    return node, uid, labels, annotations


def _texts(values: Any) -> bool:
    return isinstance(values, dict) and all(isinstance(one, str) for one in values.values())


# Writes through ``scale``: an object gets other replicas by the rules of its own kind, and they get an owner.
#
# Who owns the replicas is recorded with the object, under its own version and path and with the subresource ``scale``;
# an applied Scale is compared with these owners as if they had written Scales.

Entries = list[managed_fields.ManagerEntry]
# From the present Scale of an object to the wanted one.
Change = Callable[[Document], Document]
_REPLICAS: Path = (field_step("spec"), field_step("replicas"))


async def change(write: Write, wanted: Change) -> Written:
    """Give an object the replicas of a changed Scale, whose writer owns them then."""

    async def once(entry: StoredEntry, old: Any) -> Written:
        live = await aside(_live, write, entry)

        def own(new: Any) -> None:
            field_owners.on_update(write, entry.data, old, old.metadata.managed_fields, new, None)

        return await _write(write, entry, old, live, wanted(live), own)

    return await _again(write, once)


async def _again(write: Write, once: Callable[[StoredEntry, Any], Awaitable[Written]]) -> Written:
    """Write, and once more over what others have written while webhooks were asked."""
    context, stored = write.context, write.stored
    for attempt in range(1, writes.PATCH_ATTEMPTS + 1):
        await context.conversions.know_present(stored, write.namespace, write.name)
        entry, old = await context.load(stored, write.namespace, write.name)
        try:
            return await once(entry, old)
        except Conflict:
            if not writes.overtaken(context, entry) or attempt == writes.PATCH_ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _live(write: Write, entry: StoredEntry) -> Document:
    data = encoding.as_version(entry.data, write.stored, write.kind)
    return scales.scale_of(write.kind, encoding.json_value(data), strict=False)


async def patch(write: Write, change_of: Any, patch_type: PatchType) -> Written:
    """Patch the Scale of an object; ``apply`` is server-side apply."""
    check_type(write.stored, patch_type)
    if patch_type == "apply":
        return await _apply(write, change_of)
    return await change(write, partial(apply_patch, SCALES, patch=change_of, patch_type=patch_type))


async def _apply(write: Write, body: Any) -> Written:
    context, kind, stored, options = write.context, write.kind, write.stored, write.options

    async def once(entry: StoredEntry, old: Any) -> Written:
        if not isinstance(body, dict):
            raise failures.bad_request("an applied configuration must be an object")
        config = encoding.accept_configuration(SCALES, SCALES, body, write.namespace, write.name)
        live = await aside(_live, write, entry)
        managed = old.metadata.managed_fields
        before = await aside(field_owners.entries_of, managed)
        data = encoding.as_version(entry.data, stored, kind)
        owner_entries = before or await aside(field_owners.before_first_apply, kind, stored, data, context.now())
        path = replicas_path(kind)
        applied = managed_fields.apply(
            live,
            config,
            field_owners.schema(SCALES),
            as_scales(owner_entries, path),
            managed_fields.FieldManager(options.field_manager, "Apply", SCALES.api_version, "scale"),
            "",
            lambda each: each[0] != "f:spec",
            force=options.force,
        )

        def own(new: Any) -> None:
            field_owners.set_entries(
                new, managed, before, as_objects(owner_entries, applied.entries, path, kind.api_version)
            )

        return await _write(write, entry, old, live, applied.object, own)

    return await _again(write, once)


async def _write(
    write: Write, entry: StoredEntry, old: Any, live: Document, scale: Document, own: Callable[[Any], None]
) -> Written:
    context, kind, stored = write.context, write.kind, write.stored
    name, namespace = entry.name, entry.namespace or None
    scale_patch = scales.patch_of(kind, name, scale)
    noted: list[str] = []
    if context.hooks.present:
        # Webhooks see a Scale, and those that ask for the object alone do not see this.
        request = _request(write, scale, live)
        noted = await context.hooks.show(request, dry_run=write.options.dry_run)
        scale_patch = scales.patch_of(kind, name, request.object)
    body = await aside(_scaled, kind, stored, entry.data, scale_patch)
    new = await writes.accept(write, body, name)
    strategy.check_place(new, stored, namespace, name)
    strategy.carry_over(new, old, stored, require_version=False)
    write.warnings[:0] = noted
    data = await writes.replace_stored(write, entry, old, new, lambda: own(new), hooked=False)
    answer = scales.scale_of(kind, encoding.json_value(encoding.as_version(data, stored, kind)))
    return Written(scales.encode(answer), False, write.warnings)


def _scaled(kind: Kind[Any], stored: Kind[Any], data: bytes, wanted: Document) -> Any:
    return apply_merge_patch(field_owners.plain(encoding.as_version(data, stored, kind)), wanted)


def _request(write: Write, scale: Document, live: Document) -> Request:
    user, groups = write.options.user, write.options.groups
    return Request(
        "UPDATE",
        write.stored,
        write.namespace if write.stored.namespaced else None,
        write.name,
        scale,
        live,
        "scale",
        user,
        groups,
        shown_as=(SCALES.api_version, SCALES.kind),
    )


def replicas_path(kind: Kind[Any]) -> Path:
    """Where the kind keeps its replicas, as owners name it."""
    return tuple(field_step(step) for step in scales.steps(scales.paths_of(kind).spec_replicas))


def as_scales(entries: Sequence[managed_fields.ManagerEntry], path: Path) -> Entries:
    """The owners of an object's replicas (at ``path``) as owners in its Scale."""
    return [
        managed_fields.ManagerEntry(
            managed_fields.FieldManager(
                entry.writer.name, entry.writer.operation, SCALES.api_version, entry.writer.subresource
            ),
            entry.time,
            frozenset({_REPLICAS}),
        )
        for entry in entries
        if path in entry.fields
    ]


def as_objects(
    before: Sequence[managed_fields.ManagerEntry],
    after: Sequence[managed_fields.ManagerEntry],
    path: Path,
    version: str,
) -> Entries:
    """The owners of an object after its Scale was applied.

    Args:
        before: the owners before.
        after: the owners in the Scale.
        path: of the replicas in the object.
        version: apiVersion of the object, for new owners.
    """
    left = {_name(entry): entry for entry in after}
    kept: Entries = []
    for entry in before:
        if path in entry.fields and left.pop(_name(entry), None) is None:
            kept += without([entry], {path})
        else:
            kept.append(entry)
    for name, entry in left.items():
        writer = managed_fields.FieldManager(name[0], entry.writer.operation, version, name[2])
        kept.append(managed_fields.ManagerEntry(writer, entry.time, frozenset({path})))
    return kept


def _name(entry: managed_fields.ManagerEntry) -> tuple[str, str, str]:
    return entry.writer.name, entry.writer.operation, entry.writer.subresource
