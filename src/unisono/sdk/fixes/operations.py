"""Requests that a fix consists of: patches, new objects, Commands, and objects that are created again."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from unisono.api import kinds
from unisono.api.defaulting.workloads import JOB_UID_LABELS
from unisono.api.documents import json_diff
from unisono.api.keys import BATCH_JOB_NAME, GROUP_NAME, GROUP_NAME_OF_VOLCANO
from unisono.api.kind import Kind
from unisono.api.kinds import (
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
)
from unisono.sdk.fixes.fix import Operation
from unisono.sdk.fixes.owners import Edit, Raw
from unisono.sdk.fixes.workload_groups import is_workload_group

# Kinds whose controllers bring changed pod templates to their pods.
_ROLLED_OUT = frozenset({"Deployment", "StatefulSet", "DaemonSet"})
# Fields of these kinds that cannot change.
_FIXED = ("/spec/selector", "/spec/serviceName", "/spec/podManagementPolicy", "/spec/volumeClaimTemplates")
# Kinds of which everything may be patched while they wait.
_PATCHED = frozenset({"PodGroup"})
# Labels by which a Job of batch/v1 knows its pods.
_OF_ONE_JOB = (BATCH_JOB_NAME, "job-name", *JOB_UID_LABELS)
# A claim of which nothing but the name is known: its owner chooses another size.
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


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
        (owner["kind"] in _ROLLED_OUT and not at_once and not any(path.startswith(_FIXED) for path in paths))
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
    free = ("/spec/minAvailable", "/spec/priorityClassName")
    return all(path in free or path.endswith(("/minAvailable", "/replicas")) for path in paths)


def create(
    kind: Kind[Any], name: str, namespace: str = "", *, spec: Any = None, meta: Mapping[str, Any] | None = None
) -> Operation:
    """A new object."""
    metadata: dict[str, Any] = {"name": name, **(meta or {})}
    if namespace:
        metadata["namespace"] = namespace
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    return Operation("create", kind, name, namespace, body | ({"spec": spec} if spec is not None else {}))


def patch(kind: Kind[Any], name: str, body: Any, namespace: str = "") -> Operation:
    """A merge patch."""
    return Operation("patch", kind, name, namespace, body)


def patch_of(owner: Raw, body: Any) -> list[Operation]:
    """A merge patch of an object as the server sent it; nothing for a kind that is not known."""
    kind, meta = kinds.find(owner["apiVersion"], owner["kind"]), owner["metadata"]
    return [] if kind is None else [Operation("patch", kind, meta["name"], meta.get("namespace", ""), body)]


def pod_operation(key: str, body: Any) -> Operation:
    """A merge patch of the pod ``namespace/name``; with None it is deleted."""
    namespace, _, name = key.partition("/")
    return Operation("delete" if body is None else "patch", PODS, name, namespace, body)
