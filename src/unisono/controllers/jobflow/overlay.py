"""A flow's patch over the spec of its template (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from unisono.api.batch import JobSpec
from unisono.api.flow import Flow
from unisono.controllers.patching import Json, to_json

# Fields by which items of lists are the same; the first that the items have. Other lists are replaced.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "tasks": ("name",),
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "ports": ("containerPort",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    # Volumes of pods have names, those of jobs have paths.
    "volumes": ("name", "mountPath"),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
}


def job_spec(template: JobSpec, flow: Flow) -> JobSpec:
    """The spec of the flow's job: the template's, with the flow's patch over it."""
    patch = flow.patch.job_spec if flow.patch is not None else None
    return msgspec.convert(merged(to_json(template), to_json(patch)), JobSpec)


def merged(base: Json, patch: Json) -> Json:
    """Maps are merged, lists of named items item by item, and everything else is replaced."""
    result = dict(base)
    for name, value in patch.items():
        have = base.get(name)
        if isinstance(have, Mapping) and isinstance(value, Mapping):
            result[name] = merged(dict(have), dict(value))
        elif isinstance(have, list) and isinstance(value, list) and (key := _key(name, have + value)):
            result[name] = _by_key(key, have, value)
        else:
            result[name] = value
    return result


def _key(name: str, items: list[Any]) -> str | None:
    """The field that names every one of the items; None when they have no names."""
    for key in _KEYS.get(name, ()):
        if all(isinstance(item, Mapping) and key in item for item in items):
            return key
    return None


def _by_key(key: str, base: list[Json], patch: list[Json]) -> list[Json]:
    changes = {item[key]: item for item in patch}
    result = [merged(item, changes.pop(item[key])) if item[key] in changes else item for item in base]
    return result + [item for item in patch if item[key] in changes]
