"""Changes to the pods that a manifest describes, wherever its kind keeps their specs (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from unisono.api.pod_edits import asked, containers
from unisono.api.resources import to_wire
from unisono.api.validation.meta import is_extended

Manifest = dict[str, Any]
_MOST_CLAIMS = 1000
"""Of each template of a StatefulSet."""


def pod_specs(manifest: Manifest) -> Iterator[Manifest]:
    """Every pod spec in a manifest; that of a pod is its own.

    Of a TrainJob, whose pods come from a runtime, as much as it states of them: what each requests.
    """
    spec = manifest.get("spec") or {}
    stated = (spec.get("trainer") or {}).get("resourcesPerNode") if manifest.get("kind") == "TrainJob" else None
    if stated:
        yield {"containers": [{"name": "node", "resources": stated}]}
    yield from _outermost(spec, _is_pod_spec)


def claims_of(manifest: Manifest) -> set[str]:
    """Names of claims that its pods mount; of a StatefulSet those that it makes as well."""
    volumes = (volume for spec in pod_specs(manifest) for volume in spec.get("volumes") or ())
    mounted = {one["persistentVolumeClaim"]["claimName"] for one in volumes if one.get("persistentVolumeClaim")}
    spec, name = manifest.get("spec") or {}, manifest["metadata"]["name"]
    first = (spec.get("ordinals") or {}).get("start", 0)
    numbers = range(first, first + min(spec.get("replicas", 1), _MOST_CLAIMS))
    templates = spec.get("volumeClaimTemplates") or () if manifest.get("kind") == "StatefulSet" else ()
    return mounted | {f"{one['metadata']['name']}-{name}-{number}" for one in templates for number in numbers}


def claim_specs(manifest: Manifest) -> Iterator[Manifest]:
    """What it says of claims that are made for it, in templates and in ephemeral volumes."""
    return _outermost(manifest.get("spec"), lambda one: "accessModes" in one and isinstance(one.get("resources"), dict))


def unlimited(manifest: Manifest) -> list[str]:
    """Resources that containers request without the limit that devices must have."""
    names: dict[str, None] = {}
    for spec in pod_specs(manifest):
        for container in containers(spec):
            resources = container.get("resources") or {}
            limits = resources.get("limits") or {}
            stated = (name for name in resources.get("requests") or {} if name not in limits)
            names |= dict.fromkeys(name for name in stated if is_extended(name) or name.startswith("hugepages-"))
    return list(names)


def _is_pod_spec(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("containers"), list)


def _is_template(value: Manifest) -> bool:
    return _is_pod_spec(value.get("spec"))


def _outermost(value: Any, wanted: Callable[[Manifest], bool]) -> Iterator[Manifest]:
    """The mappings of a manifest that are wanted, without those inside of one."""
    if isinstance(value, dict) and wanted(value):
        yield value
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _outermost(child, wanted)


def annotate(manifest: Manifest, key: str, value: str) -> None:
    """Give every pod of a manifest an annotation; where the manifest has it, its pods take it over from there."""
    own = (manifest.get("metadata") or {}).get("annotations") or {}
    if key in own:
        own[key] = value
    for pod in _outermost(manifest, _is_template):
        meta = pod.setdefault("metadata", {})
        meta["annotations"] = (meta.get("annotations") or {}) | {key: value}


def each_pod(edit: Callable[[Manifest], None]) -> Callable[[Manifest], None]:
    """An edit of a manifest that changes all its pod specs."""

    def change(manifest: Manifest) -> None:
        for spec in pod_specs(manifest):
            edit(spec)

    return change


def limit_at_most(spec: Manifest, name: str, most: int, *, whole: bool) -> None:
    """State a limit where a container has none: what it requests, else its part of ``most``, of the ``whole`` pod."""
    beside = [one for one in containers(spec) if one in spec["containers"] or one.get("restartPolicy") == "Always"]
    for container in containers(spec):
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        if name not in limits:
            part = min(asked(container, name) or most, most) if whole else most
            if whole and not asked(container, name) and container in beside:
                part = most // len(beside)
            limits[name] = to_wire({name: part})[name]
            container["resources"] = {**resources, "limits": limits}


def use_storage_class(spec: Manifest, storage_class: str) -> None:
    """Name another storage class in the ephemeral volumes."""
    for volume in spec.get("volumes") or ():
        claim = ((volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}).get("spec")
        if claim is not None:
            claim["storageClassName"] = storage_class


def set_field(spec: Manifest, name: str, value: Any) -> None:
    """Set a field of the pod spec; None takes it away."""
    if value is None:
        spec.pop(name, None)
    else:
        spec[name] = value
