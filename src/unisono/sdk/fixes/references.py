"""Names of other objects in a manifest: where each kind is named, and a fix for a name that nothing has (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from unisono.api.keys import GROUP_NAME, GROUP_NAME_OF_VOLCANO
from unisono.api.kind import Kind
from unisono.api.kind_families import CLUSTER_TRAINING_RUNTIMES, JOB_TEMPLATES, TRAINING_RUNTIMES
from unisono.api.kinds import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_GROUPS,
    PRIORITY_CLASSES,
    QUEUES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from unisono.api.pod_edits import places
from unisono.jobkinds.registry import job_kind_of
from unisono.sdk.fixes.fix import Fix
from unisono.sdk.fixes.operations import changed, create, new_claim
from unisono.sdk.fixes.owners import Raw
from unisono.sdk.fixes.pod_specs import each_pod, set_field
from unisono.sdk.foreign import Missing


class _Named(NamedTuple):
    """How objects name one of a kind.

    Attributes:
        kind: what is named.
        word: for people.
        where: it is named, for people.
        fields: ``claimName``, or ``secretRef.name`` for one that means something else elsewhere.
        made: one of a name may be created with nothing but this beside it; None: its content is for others to say.
    """

    kind: Kind[Any]
    word: str
    where: str
    fields: tuple[str, ...]
    made: dict[str, Any] | None = None


_MAPS = ("configMap.name", "configMapRef.name", "configMapKeyRef.name")
_SECRETS = ("secret.secretName", "secret.name", "secretRef.name", "secretKeyRef.name")
_NAMED = {
    each.kind.kind: each
    for each in (
        _Named(SERVICE_ACCOUNTS, "service account", "its pods", ("serviceAccountName", "serviceAccount"), {}),
        _Named(PRIORITY_CLASSES, "priority class", "its pods", ("priorityClassName",), {"value": 0}),
        _Named(RUNTIME_CLASSES, "RuntimeClass", "its pods", ("runtimeClassName",)),
        _Named(CONFIG_MAPS, "ConfigMap", "its pods", _MAPS),
        _Named(SECRETS, "Secret", "its pods", _SECRETS),
        _Named(PERSISTENT_VOLUME_CLAIMS, "claim", "its volumes", ("claimName", "volumeClaimName")),
        _Named(RESOURCE_CLAIMS, "resource claim", "its pods", ("resourceClaimName",)),
        _Named(RESOURCE_CLAIM_TEMPLATES, "ResourceClaimTemplate", "its pods", ("resourceClaimTemplateName",)),
        _Named(DEVICE_CLASSES, "device class", "its requests", ("deviceClassName",)),
        _Named(CLUSTER_TRAINING_RUNTIMES, "runtime", "spec.runtimeRef", ("runtimeRef.name",)),
        _Named(TRAINING_RUNTIMES, "runtime", "spec.runtimeRef", ("runtimeRef.name",)),
        _Named(JOB_TEMPLATES, "JobTemplate", "spec.flows", ("flows.name", "targets")),
        _Named(POD_GROUPS, "PodGroup", "its pods", (GROUP_NAME, GROUP_NAME_OF_VOLCANO)),
        _Named(QUEUES, "queue", "it", ()),
    )
}
KINDS = {name: each.kind for name, each in _NAMED.items()}
"""Those of which it may be said that there is none of a name."""


def rename(manifest: Raw, kind: str, name: str, instead: str) -> None:
    """Name another object of a kind wherever a manifest names this one."""
    for box, at in places(manifest, _NAMED[kind].fields):
        if box[at] == name:
            box[at] = instead
            if kind == PRIORITY_CLASSES.kind:
                box.pop("priority", None)  # that of the other class


def use_key(manifest: Raw, lacks: Missing) -> None:
    """Take the key of a ConfigMap or Secret that was meant, in variables and volumes."""
    for box, at in places(manifest, _NAMED[lacks.kind].fields):
        for part in (box, *(box.get("items") or ())) if box[at] == lacks.name else ():
            if part.get("key") == lacks.key:
                part["key"] = lacks.meant


def for_missing(root: Raw, missing: Missing) -> Iterator[Fix]:
    """Name what was meant in place of what does not exist, else create that where its name says it all."""
    named, name, near, meta = _NAMED[missing.kind], missing.name, missing.meant, root["metadata"]
    namespace = meta.get("namespace", "default") if named.kind.namespaced else ""
    if missing.key and near:
        field, text = named.fields[-1].partition(".")[0], f"take key {near} of {named.word} {name} in its pods"
        operations = changed(root, lambda body: use_key(body, missing))
        yield Fix(text, False, {"kind": "SetField", "field": field, "value": near}, tuple(operations))
    elif near and named.kind is QUEUES:
        edited = changed(root, lambda body: use_queue(body, near))
        yield Fix(f"name queue {near}", False, {"kind": "UseQueue", "queue": near}, tuple(edited))
    elif near:
        change = {"kind": "SetField", "field": named.fields[0].partition(".")[0], "value": near}
        if named.kind is PERSISTENT_VOLUME_CLAIMS:
            change = {"kind": "UseClaim", "of": named.kind.kind, "name": name, "instead": near}
        operations = changed(root, lambda body: rename(body, missing.kind, name, near))
        yield Fix(f"name {named.word} {near} in {named.where}", False, change, tuple(operations))
    elif named.kind is RUNTIME_CLASSES:
        edited = changed(root, each_pod(lambda spec: set_field(spec, "runtimeClassName", None)))
        without = {"kind": "SetPodField", "field": "runtimeClassName", "value": None}
        yield Fix(f"run its pods without RuntimeClass {name}", False, without, tuple(edited))
    elif named.kind is PERSISTENT_VOLUME_CLAIMS:
        yield Fix(f"create claim {name}", False, {"kind": "CreateClaim", "name": name}, (new_claim(name, namespace),))
    elif named.kind is QUEUES:
        made = create(QUEUES, name, spec={"weight": 1, "reclaimable": True})
        yield Fix(f"create queue {name}", False, {"kind": "CreateQueue", "queue": name}, (made,))
    elif named.made is not None:
        made = create(named.kind, name, namespace)
        made.body.update(named.made)
        change = {"kind": f"Create{named.kind.kind}", "name": name}
        yield Fix(f"create {named.word} {name}", False, change, (made,))


def use_queue(manifest: Raw, queue: str) -> None:
    """Wait in another queue: each kind says where it names it."""
    if (kind := job_kind_of(manifest)) is not None:
        kind.use_queue(manifest, queue)
