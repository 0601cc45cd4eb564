"""Ways out for objects that have no pods: their fields that name what does not exist, or keep them from going on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from unisono.sdk import foreign
from unisono.sdk.fixes.fix import Fix
from unisono.sdk.fixes.of_objects import in_queue
from unisono.sdk.fixes.operations import changed, new_claim
from unisono.sdk.fixes.owners import Raw
from unisono.sdk.fixes.pod_specs import pod_specs
from unisono.sdk.foreign import MissingKey, missing_key

_REFERENCES = {
    "configmap": ("ConfigMap", ("configMap", "configMapRef", "configMapKeyRef")),
    "secret": ("Secret", ("secret", "secretRef", "secretKeyRef")),
}
"""Kind, and the fields of pods that name an object of it, by the word of nodes."""


def for_fields(root: Raw, empty: str, stalled: str, messages: Iterable[str]) -> Iterator[Fix]:
    """What is to be changed in the object itself.

    Args:
        root: the object that a user wrote.
        empty: the field by which it wants no pods.
        stalled: why it has none.
        messages: what controllers, the server and the scheduler say.

    """
    if empty:
        yield _set(root, empty, 1, f"set {empty} to 1")
    if stalled.startswith("spec.") and " hands it to " in stalled:
        field = stalled.partition(" ")[0]
        yield _set(root, field, None, f"remove {field}: the controllers here run it then")
    for message in (stalled, *messages):
        yield from named(root, message[: foreign.LONGEST])


def named(root: Raw, text: str) -> Iterator[Fix]:
    """For a message of a controller or of the server that says which name does not exist."""
    if found := foreign.QUEUE_OR_MEANT.search(text):
        yield in_queue(root, found[1], found[2] or "")
    elif (found := foreign.RUNTIME_MEANT.search(text)) and root["kind"] == "TrainJob":
        yield _set(root, "spec.runtimeRef.name", found[2], f"name runtime {found[2]} in spec.runtimeRef")
    elif (found := foreign.JOB_TEMPLATE_MEANT.search(text)) and root["kind"] == "JobFlow":
        text = f"name JobTemplate {found[2]} in spec.flows"
        yield _edited(root, text, "spec.flows", found[2], _flows(*found.groups()))
    elif found := foreign.CLAIM_OR_MEANT.search(text):
        yield _claim(root, found[1], found[2] or "")
    elif found := foreign.FILES_MEANT.search(text):
        yield _files(root, *found.groups())
    elif (lacks := missing_key(text)) and lacks.meant:
        yield _key(root, lacks)
    elif found := foreign.CLAIM_TEMPLATE_MEANT.search(text):
        yield claim_template(root, *found.groups())


def _claim(root: Raw, name: str, near: str) -> Fix:
    """Of a Volcano Job whose volumes name a claim that does not exist."""
    if not near:
        made = new_claim(name, root["metadata"].get("namespace", "default"))
        return Fix(f"create claim {name}", False, {"kind": "CreateClaim", "name": name}, (made,))

    def edit(body: Raw) -> None:
        for volume in body["spec"].get("volumes") or ():
            if volume.get("volumeClaimName") == name:
                volume["volumeClaimName"] = near

    change = {"kind": "UseClaim", "of": "PersistentVolumeClaim", "name": name, "instead": near}
    return Fix(f"name claim {near} in spec.volumes", False, change, tuple(changed(root, edit)))


def claim_template(root: Raw, name: str, instead: str) -> Fix:
    """Make the claims of the pods from another ResourceClaimTemplate."""

    def edit(body: Raw) -> None:
        for spec in pod_specs(body):
            for claim in spec.get("resourceClaims") or ():
                if claim.get("resourceClaimTemplateName") == name:
                    claim["resourceClaimTemplateName"] = instead

    text = f"name ResourceClaimTemplate {instead} in its pods"
    return _edited(root, text, "resourceClaimTemplateName", instead, edit)


def _files(root: Raw, word: str, name: str, instead: str) -> Fix:
    """Take the volumes and variables of the pods from another ConfigMap or Secret."""
    kind, fields = _REFERENCES[word]

    def edit(body: Raw) -> None:
        for spec in pod_specs(body):
            for one in _named_by(spec, fields):
                for key in ("name", "secretName"):
                    if one.get(key) == name:
                        one[key] = instead

    return _edited(root, f"name {kind} {instead} in its pods", fields[0], instead, edit)


def _key(root: Raw, lacks: MissingKey) -> Fix:
    """Take another key of a ConfigMap or Secret, in variables and volumes."""
    fields = _REFERENCES[lacks.kind.lower()][1]

    def edit(body: Raw) -> None:
        for spec in pod_specs(body):
            for one in _named_by(spec, fields):
                if lacks.name in (one.get("name"), one.get("secretName")):
                    for part in (one, *(one.get("items") or ())):
                        if part.get("key") == lacks.key:
                            part["key"] = lacks.meant

    return _edited(
        root, f"take key {lacks.meant} of {lacks.kind} {lacks.name} in its pods", fields[-1], lacks.meant, edit
    )


def _named_by(value: Any, fields: tuple[str, ...]) -> Iterator[Raw]:
    """The references below ``value`` that stand in these fields."""
    if isinstance(value, list):
        for child in value:
            yield from _named_by(child, fields)
    elif isinstance(value, dict):
        for key, child in value.items():
            if key in fields and isinstance(child, dict):
                yield child
            yield from _named_by(child, fields)


def _flows(name: str, instead: str) -> Callable[[Raw], None]:
    def edit(body: Raw) -> None:
        for flow in body["spec"].get("flows") or ():
            if flow.get("name") == name:
                flow["name"] = instead
            targets = (flow.get("dependsOn") or {}).get("targets") or []
            for at, target in enumerate(targets):
                targets[at] = instead if target == name else target

    return edit


def _set(root: Raw, path: str, value: Any, text: str) -> Fix:
    """One field gets a value; None takes it away."""
    *above, last = path.split(".")

    def edit(body: Raw) -> None:
        at: Any = body
        for name in above:
            at = at.setdefault(name, {})
        if value is None:
            at.pop(last, None)
        else:
            at[last] = value

    return _edited(root, text, path, value, edit)


def _edited(root: Raw, text: str, field: str, value: Any, edit: Callable[[Raw], None]) -> Fix:
    change = {"kind": "SetField", "field": field, "value": value}
    return Fix(text, False, change, tuple(changed(root, edit)))
