"""What a verdict's change means for the objects of the API."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unisono.api import kinds
from unisono.api.annotations import USER_LIMITS
from unisono.api.defaulting.workloads import JOB_UID_LABELS
from unisono.api.keys import BATCH_JOB_NAME, GROUP_NAME, GROUP_NAME_OF_VOLCANO, POD_CLAIM_NAME
from unisono.api.kind import Kind
from unisono.api.kinds import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    QUEUES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
)
from unisono.api.membership import pod_group_name
from unisono.api.resources import to_units, to_wire
from unisono.api.user_limits import raised
from unisono.sdk.fixes import gang_sizes, pod_specs
from unisono.sdk.fixes.fix import Fix, Operation
from unisono.sdk.fixes.gang_sizes import NoSuchField
from unisono.sdk.fixes.json_diff import json_diff
from unisono.sdk.fixes.owners import Raw, read
from unisono.sdk.fixes.workload_groups import group_named_in, is_workload_group

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

Edit = Callable[[dict[str, Any]], None]
# Kinds whose controllers bring changed pod templates to their pods.
_ROLLED_OUT = frozenset({"Deployment", "StatefulSet", "DaemonSet"})
# Kinds of which everything may be patched while they wait.
_PATCHED = frozenset({"PodGroup"})
# Changes of a PodGroup itself; others are changes of its pods.
_OF_GROUPS = frozenset({"LowerMinAvailable", "SetMinResources", "AllowTier", "UseQueue", "UsePriority"})
# Of these, those that a PodGroup of scheduling.k8s.io states.
_OF_WORKLOAD_GROUPS = frozenset({"LowerMinAvailable", "UseQueue"})
# Changes that may be of another object than the job.
_APART = frozenset({"CreatePods", "LowerMinAvailable", "UseQueue", "UseStorageClass"})
_MOST_PODS = 200
# Labels by which a Job of batch/v1 knows its pods.
_OF_ONE_JOB = (BATCH_JOB_NAME, "job-name", *JOB_UID_LABELS)
# A claim of which nothing but the name is known: its owner chooses another size.
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_NOT_HERE = "the API cannot add nodes: create them where your cluster gets its nodes"


class Reader:
    """Makes the fixes of one explanation.

    Args:
        client: the server.
        owner: what waits, as the user wrote it and the server sent it.
        namespace: where it is.

    """

    def __init__(self, client: HttpClient, owner: Raw | None, namespace: str) -> None:
        self._client, self._owner, self._namespace = client, owner, namespace

    async def fix(self, change: Mapping[str, Any], text: str) -> Fix:
        """The fix that carries out a change."""
        told = dict(change)
        tried = bool(told.get("tried", True))
        try:
            operations = await self._operations(told)
        except NoSuchField as error:
            return Fix(text, tried, told, why_not=str(error))
        kind = told["kind"]
        why_not = _NOT_HERE if _adds_nodes(told) else ""
        if not operations and not why_not:
            why_not = "nothing is to be changed" if kind == "WaitFor" else "no patch for it is known"
        return Fix(text, tried, told, tuple(operations), why_not)

    async def _operations(self, change: dict[str, Any]) -> list[Operation]:
        match change["kind"]:
            case "Together":
                return await self._together(change["changes"])
            case "RaiseCapability" | "RaiseDeserved":
                part = "capability" if change["kind"] == "RaiseCapability" else "deserved"
                return await self._raised(QUEUES, change["queue"], part, change["amounts"])
            case "RaiseQuota":
                return await self._raised(RESOURCE_QUOTAS, change["quota"], "hard", change["amounts"])
            case "RaiseWeight":
                return [_patch(QUEUES, change["queue"], {"spec": {"weight": change["weight"]}})]
            case "PassOver":
                return [_patch(QUEUES, change["queue"], {"spec": {"dequeueStrategy": "traverse"}})]
            case "AllowReclaim":
                return [_patch(QUEUES, change["queue"], {"spec": {"reclaimable": True}})]
            case "RaiseUserLimits":
                return await self._user_limits(change["queue"], change["amounts"])
            case "OpenQueue":
                return [await self._open(change["queue"])]
            case "CreateQueue":
                return [create(QUEUES, change["queue"], spec={"weight": 1, "reclaimable": True})]
            case "Uncordon":
                return [_patch(NODES, name, {"spec": {"unschedulable": None}}) for name in change["nodes"]]
            case "AddLabels":
                return [_patch(NODES, name, {"metadata": {"labels": change["labels"]}}) for name in change["nodes"]]
            case "RemoveGates":
                if self._owner is not None and is_from_template(self._owner):
                    return changed(self._owner, _pods(lambda spec: pod_specs.set_field(spec, "schedulingGates", None)))
                return [_pod(key, {"spec": {"schedulingGates": None}}) for key in change["pods"]]
            case "ReleasePort" | "EvictPods":
                return [_pod(key, None) for key in change["pods"]]
            case "WaitFor" | "AddNodes":
                return []
            case "CreateClaim":
                return [new_claim(change["name"], self._namespace)]
            case "UseStorageClass" if self._makes_claim(change["claim"]):
                return await self._of_owner(change)
            case "UseStorageClass":
                return await self._other(PERSISTENT_VOLUME_CLAIMS, change["claim"], _storage_class(change))
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
        own = [one for one in changes if _edit(one) is not None and one["kind"] not in _APART]
        others = [one for one in changes if one not in own]
        made = [await self._operations(one) for one in others]
        edited = await self._edited(own) if own else []
        again = any(one.verb == "replace" for each in (*made, edited) for one in each)
        for at, one in enumerate(others):
            if again and one["kind"] == "RemoveGates" and self._owner is not None and self._owner["kind"] != "Pod":
                made[at] = changed(self._owner, _pods(lambda spec: pod_specs.set_field(spec, "schedulingGates", None)))
        return [*(each for one in made for each in one), *edited]

    async def _of_owner(self, change: dict[str, Any]) -> list[Operation]:
        edit = _edit(change)
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
        if self._owner["kind"] != "PodGroup":
            at_once = any(one.get("rule") == "podAntiAffinity" or one["kind"] == "SetField" for one in changes)
            return changed(self._owner, _all_of(changes), at_once=at_once)
        of_pods = [one for one in changes if one["kind"] not in _OF_GROUPS]
        pods = await self._bare_pods() if of_pods else []
        own = changed(self._owner, _all_of([one for one in changes if one not in of_pods]))
        return [*own, *(each for pod in pods for each in changed(pod, _all_of(of_pods)))]

    async def _bare_pods(self) -> list[Raw]:
        """The pods without a node that a user made for the PodGroup."""
        assert self._owner is not None
        name = self._owner["metadata"]["name"]
        pods = (await self._client.list(PODS, self._namespace)).items
        mine = [pod for pod in pods if pod_group_name(pod.metadata.annotations, pod.spec) == name]
        names = [pod.metadata.name for pod in mine if not pod.spec.node_name and not pod.metadata.owner_references]
        found = [await read(self._client, PODS, each, self._namespace) for each in names[:_MOST_PODS]]
        return [pod for pod in found if pod is not None]

    async def _more_pods(self, change: dict[str, Any]) -> list[Operation]:
        """Copies of a pod of the PodGroup; where a controller makes the pods, its spec asks for more."""
        owner, count = self._owner, change["count"]
        if owner is None or owner["kind"] != "PodGroup":
            return await self._of_owner(change)
        pods = await self._client.list(PODS, self._namespace)
        name = owner["metadata"]["name"]
        mine = [pod for pod in pods.items if pod_group_name(pod.metadata.annotations, pod.spec) == name]
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

    # ---- other objects

    async def _raised(self, kind: Kind[Any], name: str, part: str, amounts: Mapping[str, int]) -> list[Operation]:
        """The new limits, by what stands there now."""
        namespace = self._namespace if kind.namespaced else ""
        found = await read(self._client, kind, name, namespace)
        if found is None:
            return []
        limits = (found.get("spec") or {}).get(part) or {}
        wire: dict[str, str] = {}
        for resource, amount in amounts.items():
            for key in [key for key in limits if key in (resource, f"requests.{resource}")] or [resource]:
                plain = key.removeprefix("requests.")
                wire[key] = to_wire({plain: to_units(plain, limits.get(key, "0")) + amount})[plain]
        return [_patch(kind, name, {"spec": {part: wire}}, namespace)]

    async def _user_limits(self, name: str, amounts: Mapping[str, int]) -> list[Operation]:
        found = await read(self._client, QUEUES, name, "")
        if found is None:
            return []
        text = raised((found["metadata"].get("annotations") or {}).get(USER_LIMITS, ""), amounts)
        return [_patch(QUEUES, name, {"metadata": {"annotations": {USER_LIMITS: text}}})]

    async def _other(self, kind: Kind[Any], name: str, edit: Edit) -> list[Operation]:
        """Another claim in place of one that nothing uses yet: its spec cannot be changed."""
        found = await read(self._client, kind, name, self._namespace)
        return [] if found is None else changed(found, edit)

    async def _device_class(self, change: Mapping[str, Any]) -> list[Operation]:
        """Of a claim; of one that is made from a template the template, and the claim is made again."""
        edit, name = _device_class(change), change["claim"]
        claim = await read(self._client, RESOURCE_CLAIMS, name, self._namespace)
        entry = ((claim or {}).get("metadata", {}).get("annotations") or {}).get(POD_CLAIM_NAME)
        specs = list(pod_specs.pod_specs(self._owner)) if self._owner is not None and entry else []
        templates = {
            one.get("resourceClaimTemplateName")
            for spec in specs
            for one in spec.get("resourceClaims") or ()
            if one["name"] == entry
        } - {None}
        if claim is None or not templates:
            return [] if claim is None else changed(claim, edit)
        found = [await read(self._client, RESOURCE_CLAIM_TEMPLATES, one, self._namespace) for one in sorted(templates)]
        made = [operation for one in found if one is not None for operation in changed(one, edit)]
        return [*made, Operation("delete", RESOURCE_CLAIMS, name, self._namespace)]

    async def _open(self, queue: str) -> Operation:
        """A Command, as ``unisono queue operate --action open`` sends it."""
        found = await read(self._client, QUEUES, queue, None) or {}
        uid = (found.get("metadata") or {}).get("uid", "")
        return command(QUEUES, queue, uid, "OpenQueue", self._namespace)


def _storage_class(change: Mapping[str, Any]) -> Edit:
    def edit(body: Raw) -> None:
        body["spec"]["storageClassName"] = change["storage_class"]
        body["spec"].pop("volumeName", None)

    return edit


def _device_class(change: Mapping[str, Any]) -> Edit:
    def edit(body: Raw) -> None:
        spec = body["spec"].get("spec") or body["spec"]  # that of a template stands one deeper
        for request in ((spec.get("devices") or {}).get("requests")) or ():
            for one in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
                if one.get("deviceClassName") == change["name"]:
                    one["deviceClassName"] = change["instead"]

    return edit


def new_claim(name: str, namespace: str) -> Operation:
    """A PersistentVolumeClaim of the default storage class."""
    return create(PERSISTENT_VOLUME_CLAIMS, name, namespace, spec=_CLAIM)


def is_from_template(owner: Raw) -> bool:
    """Whether pods of new names come from a template: what is changed on a pod is lost with it."""
    return owner["kind"] in _ROLLED_OUT | {"ReplicaSet"} or owner["apiVersion"] == "batch/v1"


def command(kind: Kind[Any], name: str, uid: str, action: str, namespace: str) -> Operation:
    """A Command to the controllers."""
    target = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": uid, "controller": True}
    made = create(kinds.COMMANDS, f"{action}-{name}".lower(), namespace)
    made.body.update(action=action, target=target)
    return made


def _edit(change: Mapping[str, Any]) -> Edit | None:
    """What a change does to the manifest of the job; None for changes of other objects."""
    match change["kind"]:
        case "LowerMinAvailable":
            return lambda body: gang_sizes.lower(body, change["to"])
        case "SetMinResources":
            return lambda body: gang_sizes.set_min_resources(body, to_wire(change["amounts"]))
        case "CreatePods":
            return lambda body: gang_sizes.grow(body, change["count"])
        case "SetField":
            return lambda body: pod_specs.set_field(body["spec"], change["field"].partition(".")[2], change["value"])
        case "AllowTier":
            return lambda body: gang_sizes.allow_tier(body, change["tier"])
        case "UseQueue":
            return lambda body: gang_sizes.use_queue(body, change["queue"])
        case "UsePriority":
            return lambda body: gang_sizes.use_priority(body, change["priority_class"])
        case "RequestAtMost":
            return _pods(lambda spec: pod_specs.request_at_most(spec, change["amounts"]))
        case "UseResource":
            return _pods(lambda spec: pod_specs.use_resource(spec, change["name"], change["instead"]))
        case "UseLabel":
            return _pods(lambda spec: pod_specs.use_label(spec, change))
        case "AddToleration":
            return _pods(lambda spec: pod_specs.tolerate(spec, change))
        case "RelaxRule":
            return _pods(lambda spec: pod_specs.relax(spec, change["rule"]))
        case "UseClaim":
            return _pods(lambda spec: pod_specs.use_claim(spec, change["of"], change["name"], change["instead"]))
        case "UseStorageClass":
            return _pods(lambda spec: pod_specs.use_storage_class(spec, change["storage_class"]))
        case "SetPodField":
            return _pods(lambda spec: pod_specs.set_field(spec, change["field"], change["value"]))
    return None


def _all_of(changes: Sequence[dict[str, Any]]) -> Edit:
    """One edit that makes all of the changes."""
    edits = [edit for one in changes if (edit := _edit(one)) is not None]

    def edit_all(body: dict[str, Any]) -> None:
        for edit in edits:
            edit(body)

    return edit_all


def changed(owner: Raw, edit: Edit, *, at_once: bool = False) -> list[Operation]:
    """What brings a changed manifest about: a patch where its kind allows that, else another object in its place.

    ``at_once``: for all pods at the same time, where those with the old spec would keep the new ones away.
    """
    kind = kinds.find(owner["apiVersion"], owner["kind"])
    if kind is None:
        return []
    new = copy.deepcopy(owner)
    edit(new)
    patch = json_diff(owner, new)
    if not patch:
        return []
    meta = owner["metadata"]
    paths = [one["path"] for one in patch]
    if (
        (owner["kind"] in _ROLLED_OUT and not at_once)
        or (owner["kind"] in _PATCHED and not is_workload_group(owner))
        or _may_change(owner, paths)
    ):
        return [Operation("patch", kind, meta["name"], meta.get("namespace", ""), patch, "json")]
    return [
        Operation("replace", kind, meta["name"], meta.get("namespace", ""), json_diff(owner, _unmarked(new)), "json")
    ]


def _unmarked(manifest: Raw) -> Raw:
    """Without what the server and controllers wrote for this one object: another one gets its own."""
    meta = manifest["metadata"]
    if manifest["kind"] == "Pod":
        notes = meta.get("annotations") or {}
        for key in (GROUP_NAME, GROUP_NAME_OF_VOLCANO):
            if str(notes.get(key, "")).startswith("podgroup-"):
                del notes[key]
    if (
        manifest["kind"] == "Job"
        and manifest["apiVersion"] == "batch/v1"
        and not manifest["spec"].get("manualSelector")
    ):
        manifest["spec"].pop("selector", None)
        template = manifest["spec"]["template"].get("metadata") or {}
        for labels in (meta.get("labels") or {}, template.get("labels") or {}):
            for key in _OF_ONE_JOB:
                labels.pop(key, None)
    return manifest


def _may_change(owner: Raw, paths: list[str]) -> bool:
    """Of Volcano Jobs the sizes of the gang and the priority may change, of pods that wait their gates."""
    if not kinds.JOBS.matches(owner["apiVersion"], owner["kind"]):
        return False
    return all(path == "/spec/minAvailable" or path.endswith(("/minAvailable", "/replicas")) for path in paths)


def create(
    kind: Kind[Any], name: str, namespace: str = "", *, spec: Any = None, meta: Mapping[str, Any] | None = None
) -> Operation:
    """A new object."""
    metadata: dict[str, Any] = {"name": name, **(meta or {})}
    if namespace:
        metadata["namespace"] = namespace
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    return Operation("create", kind, name, namespace, body | ({"spec": spec} if spec is not None else {}))


def _patch(kind: Kind[Any], name: str, body: Any, namespace: str = "") -> Operation:
    return Operation("patch", kind, name, namespace, body)


def _pod(key: str, body: Any) -> Operation:
    namespace, _, name = key.partition("/")
    return Operation("delete" if body is None else "patch", PODS, name, namespace, body)


def _pods(edit: Callable[[dict[str, Any]], None]) -> Edit:
    return pod_specs.each_pod(edit)


def _adds_nodes(change: Mapping[str, Any]) -> bool:
    return change["kind"] == "AddNodes" or any(_adds_nodes(one) for one in change.get("changes", ()))
