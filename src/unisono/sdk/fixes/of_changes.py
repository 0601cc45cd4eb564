"""Fixes from changes: which objects of the API each change of a verdict is about, and the requests that make it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api import pod_edits
from unisono.api.annotations import QUARANTINE, USER_LIMITS
from unisono.api.extended_devices import device_classes
from unisono.api.groups.scheduling import QueueAffinity
from unisono.api.keys import CLOSED_BY_PARENT, POD_CLAIM_NAME
from unisono.api.kind import Kind
from unisono.api.kinds import (
    BUDGETS,
    FLOATING_RESOURCES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_GROUPS,
    PODS,
    QUEUES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RUNTIME_CLASSES,
)
from unisono.api.queues import raised, with_group
from unisono.api.resources import to_units, to_wire
from unisono.api.selecting import pod_group_name
from unisono.engine.changes import OfLimits, OfQueueSpec, UseStorageClass
from unisono.engine.verdict import change_of
from unisono.jobkinds.kind import NoSuchField
from unisono.sdk.fixes import pod_specs
from unisono.sdk.fixes.edits import all_of, edit_of
from unisono.sdk.fixes.fix import Fix, Operation
from unisono.sdk.fixes.limit_ranges import default_requests
from unisono.sdk.fixes.operations import changed, command, create, is_from_template, new_claim, patch, pod_operation
from unisono.sdk.fixes.owners import Edit, Raw, read
from unisono.sdk.fixes.workload_groups import group_named_in

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.kube.http import HttpClient

# Changes of a PodGroup itself; others are changes of its pods.
_OF_GROUPS = frozenset({"LowerMinAvailable", "SetMinResources", "UseRole", "AllowTier", "UseQueue", "UsePriority"})
# Of these, those that a PodGroup of scheduling.k8s.io states.
_OF_WORKLOAD_GROUPS = frozenset({"LowerMinAvailable", "UseQueue"})
# Changes that may be of another object than the job.
_APART = frozenset({"CreatePods", "LowerMinAvailable", "UseQueue", "UseStorageClass", "UseDeviceClass"})
_MOST_PODS, _MOST_CLASSES = 200, 8
_WITHOUT_GATES = pod_specs.each_pod(lambda spec: pod_specs.set_field(spec, "schedulingGates", None))
_RESTARTED = "kubectl.kubernetes.io/restartedAt"
_NOT_HERE = "the API cannot add nodes: create them where your cluster gets its nodes"


class FixMaker:
    """Makes the fixes of one explanation: what to do to the objects of the API as they are now.

    Args:
        client: the server.
        owner: what waits, as the user wrote it and the server sent it.
        namespace: where it is.
    """

    def __init__(self, client: HttpClient, owner: Raw | None, namespace: str) -> None:
        self._client, self._owner, self._namespace = client, owner, namespace

    async def fix(self, change: Mapping[str, Any], text: str) -> Fix:
        """The fix that carries out a change."""
        plain_change = dict(change)
        tried = bool(plain_change.get("tried", True))
        try:
            operations = await self._operations(plain_change)
        except NoSuchField as error:
            return Fix(text, tried, plain_change, why_not=str(error))
        kind = plain_change["kind"]
        why_not = _NOT_HERE if _adds_nodes(plain_change) else ""
        if not operations and not why_not:
            why_not = "nothing is to be changed" if kind == "WaitFor" else "no patch for it is known"
        less = [one.name for one in operations if one.kind is RUNTIME_CLASSES]
        text += f", with less overhead by RuntimeClass {', '.join(less)}" if less else ""
        lasting = kind == "RemoveGates" and self._owner is not None and self._owner["kind"] not in ("Pod", "PodGroup")
        again = changed(self._owner, _WITHOUT_GATES) if lasting and self._owner is not None else ()
        return Fix(text, tried, plain_change, tuple(operations), why_not, lasting=tuple(again))

    async def _operations(self, change: dict[str, Any]) -> list[Operation]:
        typed_change = change_of(change)
        if isinstance(typed_change, OfQueueSpec):
            return [patch(QUEUES, typed_change.queue, {"spec": typed_change.fields()})]
        if isinstance(typed_change, OfLimits):
            return await self._limits(typed_change)
        if isinstance(typed_change, UseStorageClass) and not self._makes_claim(typed_change.claim):
            if self._claim_template(typed_change.claim) is not None:
                return await self._storage_class_of_set(typed_change)
            return await self._other(PERSISTENT_VOLUME_CLAIMS, typed_change.claim, typed_change.edit)
        match change["kind"]:
            case "Together":
                return await self._together(change["changes"])
            case "SetLicenses":
                return await self._licenses(change["name"], change["to"])
            case "RaiseBudget":
                amounts = {name: str(to) for name, to in change["amounts"].items()}
                return [patch(BUDGETS, change["name"], {"spec": {"amounts": amounts}})]
            case "UseNodeGroup":
                return await self._node_group(change)
            case "RaiseUserLimits":
                return await self._user_limits(change["queue"], change["amounts"])
            case "OpenQueue":
                return [await self._open(change["queue"])]
            case "CreateQueue":
                return [create(QUEUES, change["queue"], spec={"weight": 1, "reclaimable": True})]
            case "Uncordon":
                return [patch(NODES, name, {"spec": {"unschedulable": None}}) for name in change["nodes"]]
            case "LiftQuarantine":
                return [each for name in change["nodes"] for each in await self._lifted(name)]
            case "AddLabels":
                return [patch(NODES, name, {"metadata": {"labels": change["labels"]}}) for name in change["nodes"]]
            case "RemoveGates":
                if self._owner is not None and is_from_template(self._owner):
                    return changed(self._owner, _WITHOUT_GATES)
                return [pod_operation(key, {"spec": {"schedulingGates": None}}) for key in change["pods"]]
            case "ReleasePort" | "EvictPods":
                return [pod_operation(key, None) for key in change["pods"]]
            case "WaitFor" | "AddNodes":
                return []
            case "CreateClaim":
                return [new_claim(change["name"], self._namespace)]
            case "UseDeviceClass":
                return await self._device_class(change)
            case "CreatePods":
                return await self._more_pods(change)
            case _:
                return await self._of_owner(change)

    # ---- the job itself

    async def _together(self, changes: Sequence[dict[str, Any]]) -> list[Operation]:
        """All of them; those of the job itself as one, because each would write the same lists again.

        Gates go from the template where the job is created again, and its pods with it.
        """
        own = [one for one in changes if edit_of(one) is not None and one["kind"] not in _APART]
        others = [one for one in changes if one not in own]
        made = [await self._operations(one) for one in others]
        edited = await self._edited(own) if own else []
        again = any(one.verb == "replace" for each in (*made, edited) for one in each)
        for at, one in enumerate(others):
            if again and one["kind"] == "RemoveGates" and self._owner is not None and self._owner["kind"] != "Pod":
                made[at] = changed(self._owner, _WITHOUT_GATES)
        return [*(each for one in made for each in one), *edited]

    async def _of_owner(self, change: dict[str, Any]) -> list[Operation]:
        edit = edit_of(change)
        if edit is None or self._owner is None:
            return []
        named = await group_named_in(self._client, self._owner) if change["kind"] in _OF_WORKLOAD_GROUPS else None
        if named is not None:  # it says how many start together, and in which queue
            return changed(named, edit)
        return await self._edited([change])

    async def _edited(self, changes: Sequence[dict[str, Any]]) -> list[Operation]:
        """The job with all of these changes."""
        if self._owner is None:
            return []
        above = next(
            (one for one in self._owner["metadata"].get("ownerReferences") or () if one.get("controller")), None
        )
        if above is not None:
            raise NoSuchField(
                f"{above['kind']} {above['name']} makes it: change it there, or in the template that it names"
            )
        group = await self._own_group()
        of_group = [one for one in changes if one["kind"] in _OF_GROUPS] if group is not None else []
        if group is not None and of_group:  # it says so, and not the pods
            rest = [one for one in changes if one not in of_group]
            return [*changed(group, all_of(of_group)), *(await self._edited(rest) if rest else [])]
        first: list[Operation] = []
        if any(one["kind"] == "RequestAtMost" for one in changes):
            first, changes = await self._with_what_is_added(changes)
        if self._owner["kind"] != "PodGroup":
            at_once = any(one.get("rule") == "podAntiAffinity" or one["kind"] == "SetField" for one in changes)
            smaller = any(one["kind"] == "RequestAtMost" for one in changes)
            # What is promised to pods that can never start keeps smaller ones from being admitted beside them.
            at_once = at_once or (smaller and not (self._owner.get("status") or {}).get("readyReplicas"))
            return [*first, *changed(self._owner, all_of(changes), at_once=at_once)]
        of_pods = [one for one in changes if one["kind"] not in _OF_GROUPS]
        pods = await self._bare_pods() if of_pods else []
        own = changed(self._owner, all_of([one for one in changes if one not in of_pods]))
        return [*first, *own, *(each for pod in pods for each in changed(pod, all_of(of_pods)))]

    async def _with_what_is_added(
        self, changes: Sequence[dict[str, Any]]
    ) -> tuple[list[Operation], Sequence[dict[str, Any]]]:
        """Changes that know what admission adds to the pods, and what is done to RuntimeClasses that add too much."""
        overheads, defaults = await self._overheads(), await default_requests(self._client, self._namespace)
        less: dict[str, dict[str, int]] = {}
        for spec in pod_specs.pod_specs(self._owner or {}):
            name = spec.get("runtimeClassName") or ""
            for resource, most in ((key, most) for one in changes for key, most in (one.get("amounts") or {}).items()):
                added = overheads.get(name, {}).get(resource)
                if added is not None and to_units(resource, added) >= most:
                    rest = max(most - pod_edits.requested(spec, resource), 0)
                    amounts = less.setdefault(name, {})
                    amounts[resource] = min(rest, amounts.get(resource, rest))
        overheads = {name: {**given, **to_wire(less.get(name, {}))} for name, given in overheads.items()}
        # Pods that are there keep what their class said when they were created.
        again = [{"kind": "AddAnnotation", "key": _RESTARTED, "value": f"smaller overhead of {name}"} for name in less]
        patches = [
            patch(RUNTIME_CLASSES, name, {"overhead": {"podFixed": to_wire(amounts)}}) for name, amounts in less.items()
        ]
        additions = {"overheads": overheads, "defaults": defaults}
        return patches, [*(one | additions if one["kind"] == "RequestAtMost" else one for one in changes), *again]

    async def _own_group(self) -> Raw | None:
        """The PodGroup that the job's pods name, where a user made it; else None."""
        owner = self._owner or {}
        template = ((owner.get("spec") or {}).get("template") or {}).get("metadata") or {}
        notes = [(each.get("annotations") or {}) for each in (owner.get("metadata") or {}, template)]
        name = next((found for one in notes if (found := pod_group_name(one))), "")
        group = await read(self._client, POD_GROUPS, name, self._namespace) if name else None
        return None if group is None or group["metadata"].get("ownerReferences") else group

    async def adds_overhead(self) -> bool:
        """Whether a RuntimeClass of its pods adds anything to what they request."""
        return any((await self._overheads()).values())

    async def _overheads(self) -> dict[str, Mapping[str, Any]]:
        """What the RuntimeClasses add that the pods name, by class and resource."""
        specs = pod_specs.pod_specs(self._owner) if self._owner is not None else ()
        names = sorted({name for spec in specs if (name := spec.get("runtimeClassName"))})
        classes = {name: await read(self._client, RUNTIME_CLASSES, name, None) for name in names[:_MOST_CLASSES]}
        return {name: ((one or {}).get("overhead") or {}).get("podFixed") or {} for name, one in classes.items()}

    async def _pods_of_group(self, group: Raw) -> list[Pod]:
        pods, name = (await self._client.list(PODS, self._namespace)).items, group["metadata"]["name"]
        return [pod for pod in pods if pod_group_name(pod.metadata.annotations, pod.spec) == name]

    async def _bare_pods(self) -> list[Raw]:
        """The pods without a node that a user made for the PodGroup."""
        assert self._owner is not None
        mine = await self._pods_of_group(self._owner)
        names = [pod.metadata.name for pod in mine if not pod.spec.node_name and not pod.metadata.owner_references]
        pods = [await read(self._client, PODS, each, self._namespace) for each in names[:_MOST_PODS]]
        return [pod for pod in pods if pod is not None]

    async def _more_pods(self, change: dict[str, Any]) -> list[Operation]:
        """Copies of a pod of the PodGroup; where a controller makes the pods, its spec asks for more."""
        owner, count = self._owner, change["count"]
        if owner is None or owner["kind"] != "PodGroup":
            return await self._of_owner(change)
        mine = await self._pods_of_group(owner)
        last = max(mine, key=lambda pod: (not pod.spec.node_name, pod.metadata.name), default=None)
        like = await read(self._client, PODS, last.metadata.name, self._namespace) if last is not None else None
        if like is None:
            return []
        spec = {key: value for key, value in like["spec"].items() if key != "nodeName"}
        meta = {key: like["metadata"][key] for key in ("labels", "annotations") if like["metadata"].get(key)}
        return [
            create(
                PODS, f"{like['metadata']['name']}-more-{number}", self._namespace, spec=copy.deepcopy(spec), meta=meta
            )
            for number in range(count)
        ]

    def _makes_claim(self, name: str) -> bool:
        """Whether a claim is made for an ephemeral volume of the pod: its class stands in the pod's spec."""
        owner = self._owner
        if owner is None:
            return False
        volumes = [volume for spec in pod_specs.pod_specs(owner) for volume in spec.get("volumes") or ()]
        return any(volume.get("ephemeral") and name.endswith(f"-{volume['name']}") for volume in volumes)

    def _claim_template(self, name: str) -> Raw | None:
        """The template of a StatefulSet from which a claim is made: ``TEMPLATE-SET-NUMBER``."""
        owner = self._owner
        if owner is None or owner["kind"] != "StatefulSet":
            return None
        stem, _, number = name.rpartition("-")
        templates = owner["spec"].get("volumeClaimTemplates") or ()
        ends = f"-{owner['metadata']['name']}"
        return next((one for one in templates if number.isdecimal() and stem == one["metadata"]["name"] + ends), None)

    async def _storage_class_of_set(self, change: UseStorageClass) -> list[Operation]:
        """The set's template, which later pods need as well, and the claims that it has made so far."""
        owner, template = self._owner, self._claim_template(change.claim)
        assert owner is not None and template is not None
        wrong, name = template["spec"].get("storageClassName"), template["metadata"]["name"]

        def edit(body: Raw) -> None:
            for one in body["spec"]["volumeClaimTemplates"]:
                if one["metadata"]["name"] == name:
                    change.edit(one)

        claims = (await self._client.list(PERSISTENT_VOLUME_CLAIMS, self._namespace)).items
        made = [
            one for one in claims if self._claim_template(one.metadata.name) == template and not one.spec.volume_name
        ]
        again = [
            await self._other(PERSISTENT_VOLUME_CLAIMS, one.metadata.name, change.edit)
            for one in sorted(made, key=lambda one: one.metadata.name)[:_MOST_PODS]
            if one.spec.storage_class_name == wrong
        ]
        return [*changed(owner, edit, at_once=True), *(each for one in again for each in one)]

    # ---- other objects

    async def _limits(self, change: OfLimits) -> list[Operation]:
        """The new limits, by so much more, or less, than what stands there now."""
        quota, path = getattr(change, "quota", ""), change.path
        kind, name = (RESOURCE_QUOTAS, quota) if quota else (QUEUES, getattr(change, "queue", ""))
        namespace = self._namespace if kind.namespaced else ""
        live = await read(self._client, kind, name, namespace)
        if live is None:
            return []
        limits: Any = live.get("spec") or {}
        for part in path:
            limits = limits.get(part) or {}
        body: dict[str, Any] = {}
        for resource, amount in change.steps().items():
            keys = [key for key in limits if key in (resource, f"requests.{resource}")]
            for key in keys or ([resource] if amount > 0 else []):
                plain = key.removeprefix("requests.")
                body[key] = to_wire({plain: max(to_units(plain, limits.get(key, "0")) + amount, 0)})[plain]
        for part in reversed(path):
            body = {part: body}
        return [patch(kind, name, {"spec": body}, namespace)]

    async def _lifted(self, name: str) -> list[Operation]:
        """The node without the taint; the controllers write the rest down."""
        node = await read(self._client, NODES, name, "")
        taints = ((node or {}).get("spec") or {}).get("taints") or []
        kept = [each for each in taints if each.get("key") != QUARANTINE]
        return [patch(NODES, name, {"spec": {"taints": kept or None}})] if len(kept) < len(taints) else []

    async def _licenses(self, name: str, to: int) -> list[Operation]:
        """Another amount of a floating resource; a source that tells the amount is not overruled."""
        floating_resource = await read(self._client, FLOATING_RESOURCES, name, "")
        if floating_resource is None:
            return [create(FLOATING_RESOURCES, name, spec={"amount": to})]
        source = (floating_resource.get("spec") or {}).get("source") or {}
        if source.get("amountPointer"):
            raise NoSuchField(f"the server {source.get('url')} says how many of {name} there are: raise it there")
        return [patch(FLOATING_RESOURCES, name, {"spec": {"amount": to}})]

    async def _user_limits(self, name: str, amounts: Mapping[str, int]) -> list[Operation]:
        queue = await read(self._client, QUEUES, name, "")
        if queue is None:
            return []
        text = raised((queue["metadata"].get("annotations") or {}).get(USER_LIMITS, ""), amounts)
        return [patch(QUEUES, name, {"metadata": {"annotations": {USER_LIMITS: text}}})]

    async def _node_group(self, change: Mapping[str, Any]) -> list[Operation]:
        queue = await read(self._client, QUEUES, change["queue"], "")
        affinity = ((queue or {}).get("spec") or {}).get("affinity")
        if affinity is None:
            return []
        instead = with_group(msgspec.convert(affinity, QueueAffinity), change["name"], change["instead"])
        return [patch(QUEUES, change["queue"], {"spec": {"affinity": msgspec.to_builtins(instead)}})]

    async def _other(self, kind: Kind[Any], name: str, edit: Edit) -> list[Operation]:
        """Another claim in place of one that nothing uses yet: its spec cannot be changed."""
        claim = await read(self._client, kind, name, self._namespace)
        return [] if claim is None else changed(claim, edit)

    async def _device_class(self, change: Mapping[str, Any]) -> list[Operation]:
        """Of a claim; where they are made from a template, that, and the claims are made again."""
        edit, template = all_of([change]), change.get("template", "")
        if not template:
            return await self._other(RESOURCE_CLAIMS, change["claim"], edit)
        claim_template = await read(self._client, RESOURCE_CLAIM_TEMPLATES, template, self._namespace)
        claims = (await self._client.list(RESOURCE_CLAIMS, self._namespace)).items
        made = [
            claim.metadata.name
            for claim in claims
            if claim.status.allocation is None
            and POD_CLAIM_NAME in (claim.metadata.annotations or {})
            and change["name"] in device_classes(claim)
        ]
        again = [Operation("delete", RESOURCE_CLAIMS, name, self._namespace) for name in sorted(made)[:_MOST_PODS]]
        return [*changed(claim_template, edit), *again] if claim_template is not None else []

    async def _open(self, queue: str) -> Operation:
        """A Command, as ``unisono queue operate --action open`` sends it.

        Where the queue above is closed, controllers refuse that: then the queue opens when that one does.
        """
        live_queue = await read(self._client, QUEUES, queue, None) or {}
        uid = (live_queue.get("metadata") or {}).get("uid", "")
        parent = (live_queue.get("spec") or {}).get("parent")
        above = await read(self._client, QUEUES, parent, None) if parent else None
        if ((above or {}).get("status") or {}).get("state") in ("Closed", "Closing"):
            return patch(QUEUES, queue, {"metadata": {"annotations": {CLOSED_BY_PARENT: "true"}}})
        return command(QUEUES, queue, uid, "OpenQueue", self._namespace)


def _adds_nodes(change: Mapping[str, Any]) -> bool:
    return change["kind"] == "AddNodes" or any(_adds_nodes(one) for one in change.get("changes", ()))
