"""Changes to the pods that a manifest describes, wherever its kind keeps their specs (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from unisono.api.resources import to_units, to_wire
from unisono.api.selecting import select_by_another
from unisono.api.validation.meta import is_extended

Manifest = dict[str, Any]
_WHOLE = 1000
"""One device in engine units."""


def pod_specs(manifest: Manifest) -> Iterator[Manifest]:
    """Every pod spec in a manifest; that of a pod is its own.

    Of a TrainJob, whose pods come from a runtime, as much as it states of them: what each requests.
    """
    spec = manifest.get("spec") or {}
    stated = (spec.get("trainer") or {}).get("resourcesPerNode") if manifest.get("kind") == "TrainJob" else None
    if stated:
        yield {"containers": [{"name": "node", "resources": stated}]}
    yield from _outermost(spec, _is_pod_spec)


def containers(spec: Manifest) -> list[Manifest]:
    """Those of a pod, with its init containers."""
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def unlimited(manifest: Manifest) -> list[str]:
    """Resources that containers request without the limit that devices must have."""
    found: dict[str, None] = {}
    for spec in pod_specs(manifest):
        for container in containers(spec):
            resources = container.get("resources") or {}
            limits = resources.get("limits") or {}
            asked = (name for name in resources.get("requests") or {} if name not in limits)
            found |= dict.fromkeys(name for name in asked if is_extended(name) or name.startswith("hugepages-"))
    return list(found)


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


def requested(spec: Manifest, name: str) -> int:
    """What the containers of a pod request together, in engine units."""
    return sum(_asked(one, name) for one in spec["containers"])


def limit_at_most(spec: Manifest, name: str, most: int, *, whole: bool) -> None:
    """State a limit where a container has none: what it requests, else its part of ``most``, of the ``whole`` pod."""
    for container in spec["containers"]:
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        if name not in limits:
            part = min(_asked(container, name) or most, most) if whole else most
            part = part if _asked(container, name) or not whole else most // len(spec["containers"])
            limits[name] = to_wire({name: part})[name]
            container["resources"] = {**resources, "limits": limits}


def request_at_most(
    spec: Manifest,
    most: Mapping[str, int],
    overheads: Mapping[str, Mapping[str, Any]] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> None:
    """Let the pod request no more than ``most`` (engine units), with its sidecars and its overhead.

    ``overheads`` are those of RuntimeClasses by name, which admission adds to pods that state none; ``defaults`` what
    LimitRanges let containers request that state nothing.
    The largest containers give way first, and none loses a request: where that cannot be, nothing is changed.
    """
    overhead = spec.get("overhead") or (overheads or {}).get(spec.get("runtimeClassName") or "") or {}
    every = containers(spec)
    for name, limit in most.items():
        default = (defaults or {}).get(name)
        given = [one for one in every if default is not None and not _asked(one, name)]
        for container in given:
            resources = container.get("resources") or {}
            container["resources"] = {
                **resources,
                "requests": {**(resources.get("requests") or {}), name: default},
            }
        left = limit - to_units(name, overhead.get(name, "0"))
        if left <= 0:
            continue
        if _asked(spec, name) > left:  # of the pod as a whole
            _set(spec, name, left)
        before: list[Manifest] = []  # sidecars, which run beside all that come after them
        for container in spec.get("initContainers") or ():
            if container.get("restartPolicy") == "Always":
                before.append(container)
                _level([one for one in before if _asked(one, name)], name, left)
            elif _asked(container, name):
                beside = [one for one in before if _asked(one, name)]
                _level([container, *beside], name, left)
        _level([one for one in (*spec["containers"], *before) if _asked(one, name)], name, left)
        for container in given:  # it need not say what it is given anyway
            if container["resources"]["requests"][name] == default:
                del container["resources"]["requests"][name]


def _level(containers: list[Manifest], name: str, limit: int) -> None:
    """Cap what containers ask for at one level, so that their sum is at most ``limit``; devices stay whole."""
    step = _WHOLE if "/" in name else 1
    asked = [_asked(one, name) for one in containers]
    if sum(asked) <= limit or limit < step * len(asked):
        return
    level, left = 0, limit
    for number, amount in zip(range(len(asked), 0, -1), sorted(asked), strict=True):
        level = left // number // step * step
        if amount > level:
            break
        left -= amount
    for container, amount in zip(containers, asked, strict=True):
        if amount > level:
            _set(container, name, max(level, step))


def _asked(container: Manifest, name: str) -> int:
    resources = container.get("resources") or {}
    for part in ("requests", "limits"):
        amount = (resources.get(part) or {}).get(name)
        if amount is not None:
            return to_units(name, amount)
    return 0


def _set(container: Manifest, name: str, amount: int) -> None:
    for part in ("requests", "limits"):
        amounts = container["resources"].get(part) or {}
        if name in amounts and to_units(name, amounts[name]) > amount:
            amounts[name] = to_wire({name: amount})[name]


def use_resource(spec: Manifest, name: str, instead: str) -> None:
    """Request another resource."""
    for part in ("containers", "initContainers"):
        for container in spec.get(part) or ():
            for amounts in ((container.get("resources") or {}).get(one) or {} for one in ("requests", "limits")):
                if name in amounts:
                    amounts[instead] = amounts.pop(name)


def tolerate(spec: Manifest, change: Mapping[str, Any]) -> None:
    """Tolerate a taint."""
    one = {"key": change["key"], "effect": change["effect"]}
    one |= {"operator": "Equal", "value": change["value"]} if change.get("value") else {"operator": "Exists"}
    known = spec.get("tolerations") or ()
    if not any(_tolerates(each, change) for each in known):
        spec["tolerations"] = [*known, one]


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether a toleration covers the taint already; one that holds for a time only does not."""
    if toleration.get("tolerationSeconds") is not None or toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    key, value = toleration.get("key") or "", toleration.get("value") or ""
    if toleration.get("operator", "Equal") == "Exists":
        return key in ("", taint["key"])
    return bool(
        toleration.get("operator", "Equal") == "Equal" and (key, value) == (taint["key"], taint.get("value") or "")
    )


_WISHES = {"nodeAffinity": "preference", "podAffinity": "podAffinityTerm", "podAntiAffinity": "podAffinityTerm"}
"""What a term that is required becomes as a preference."""


def relax(spec: Manifest, rule: str) -> None:
    """Turn what the pod requires of its nodes, or of other pods, into a preference."""
    if rule == "nodeSelector":
        spec.pop(rule, None)
    elif rule == "topologySpreadConstraints":
        for one in spec.get(rule) or ():
            one["whenUnsatisfiable"] = "ScheduleAnyway"
            one.pop("minDomains", None)  # the API allows it for DoNotSchedule only
    else:
        part = (spec.get("affinity") or {}).get(rule) or {}
        required = part.pop("requiredDuringSchedulingIgnoredDuringExecution", None) or []
        terms = required if isinstance(required, list) else required.get("nodeSelectorTerms") or []
        wished = part.get("preferredDuringSchedulingIgnoredDuringExecution") or []
        if terms:
            more = [{"weight": 100, _WISHES[rule]: term} for term in terms]
            part["preferredDuringSchedulingIgnoredDuringExecution"] = [*wished, *more]


def use_label(spec: Manifest, change: Mapping[str, str]) -> None:
    """Select nodes by another label, or by one more."""
    select_by_another(spec, change["key"], change["value"], change["instead_key"], change["instead_value"])


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
