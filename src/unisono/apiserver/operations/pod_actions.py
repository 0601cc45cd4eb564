"""The pod subresources that act: binding and eviction."""

from __future__ import annotations

from typing import Any

from unisono.api import field_error
from unisono.api.core import Pod, PodCondition
from unisono.api.kinds import PODS
from unisono.apiserver import failures
from unisono.apiserver.admission import Request
from unisono.apiserver.encoding import codec
from unisono.apiserver.operations import deletion
from unisono.apiserver.operations.context import Context
from unisono.apiserver.types import DeleteOptions, WriteOptions

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
    wanted = DeleteOptions.from_body(eviction.get("deleteOptions"), dry_run=options.dry_run, user=options.user)
    entry, pod = context.current(PODS, namespace, name)
    deletion.check_preconditions(pod, PODS, wanted)
    terminating = pod.metadata.deletion_timestamp is not None
    if not terminating:
        message = _EVICTED
        condition = PodCondition(
            type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI", message=message
        )
        set_condition(pod, condition, context.now())
    gone = deletion.mark(pod, PODS, wanted, context.clock())
    if wanted.dry_run or (terminating and not gone and codec.render(pod) == entry.data):
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
