"""Edits of the spec of a pod, as JSON: a trial makes them on the spec of its classes, the SDK on manifests (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from unisono.api.resources import to_units, to_wire

Spec = dict[str, Any]
_WHOLE = 1000
"""One device in engine units."""


def containers(spec: Spec) -> list[Spec]:
    """Those of a pod, with its init containers."""
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def requested(spec: Spec, name: str) -> int:
    """What the containers of a pod request together, in engine units."""
    return sum(asked(one, name) for one in spec["containers"])


def request_at_most(
    spec: Spec,
    most: Mapping[str, int],
    overheads: Mapping[str, Mapping[str, Any]] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> None:
    """Let the pod request no more than ``most`` (engine units), with its sidecars and its overhead.

    ``overheads`` are those of RuntimeClasses by name, which admission adds to pods that state none; ``defaults`` what
    LimitRanges let containers request that state nothing.
    The largest containers give way first, and none loses a request: where that cannot be, nothing is changed. An
    overhead of which the pod alone has too much becomes what they leave: its RuntimeClass adds less then.
    """
    stated = spec.get("overhead") or {}
    for name in (name for name in most if name in stated and to_units(name, stated[name]) >= most[name]):
        stated[name] = to_wire({name: max(most[name] - requested(spec, name), 0)})[name]
    overhead = spec.get("overhead") or (overheads or {}).get(spec.get("runtimeClassName") or "") or {}
    every = containers(spec)
    for name, limit in most.items():
        default = (defaults or {}).get(name)
        given = [one for one in every if default is not None and not asked(one, name)]
        for container in given:
            resources = container.get("resources") or {}
            container["resources"] = {**resources, "requests": {**(resources.get("requests") or {}), name: default}}
        left = limit - to_units(name, overhead.get(name, "0"))
        if left <= 0:
            continue
        if asked(spec, name) > left:  # of the pod as a whole
            _set(spec, name, left)
        before: list[Spec] = []  # sidecars, which run beside all that come after them
        for container in spec.get("initContainers") or ():
            if container.get("restartPolicy") == "Always":
                before.append(container)
                _level([one for one in before if asked(one, name)], name, left)
            elif asked(container, name):
                beside = [one for one in before if asked(one, name)]
                _level([container, *beside], name, left)
        _level([one for one in (*spec["containers"], *before) if asked(one, name)], name, left)
        for container in given:  # it need not say what it is given anyway
            if container["resources"]["requests"][name] == default:
                del container["resources"]["requests"][name]


def _level(containers: list[Spec], name: str, limit: int) -> None:
    """Cap what containers ask for at one level, so that their sum is at most ``limit``; devices stay whole."""
    step = _WHOLE if "/" in name else 1
    amounts = [asked(one, name) for one in containers]
    if sum(amounts) <= limit or limit < step * len(amounts):
        return
    level, left = 0, limit
    for number, amount in zip(range(len(amounts), 0, -1), sorted(amounts), strict=True):
        level = left // number // step * step
        if amount > level:
            break
        left -= amount
    for container, amount in zip(containers, amounts, strict=True):
        if amount > level:
            _set(container, name, max(level, step))


def asked(container: Spec, name: str) -> int:
    """What a container, or a pod as a whole, requests of a resource, in engine units."""
    resources = container.get("resources") or {}
    for part in ("requests", "limits"):
        amount = (resources.get(part) or {}).get(name)
        if amount is not None:
            return to_units(name, amount)
    return 0


def _set(container: Spec, name: str, amount: int) -> None:
    for part in ("requests", "limits"):
        amounts = container["resources"].get(part) or {}
        if name in amounts and to_units(name, amounts[name]) > amount:
            amounts[name] = to_wire({name: amount})[name]


def use_resource(spec: Spec, name: str, instead: str) -> None:
    """Request another resource."""
    for part in ("containers", "initContainers"):
        for container in spec.get(part) or ():
            for amounts in ((container.get("resources") or {}).get(one) or {} for one in ("requests", "limits")):
                if name in amounts:
                    amounts[instead] = amounts.pop(name)


def tolerate(spec: Spec, key: str, value: str, effect: str) -> None:
    """Tolerate a taint."""
    tolerations = spec.get("tolerations") or ()
    if not any(_tolerates(each, key, value, effect) for each in tolerations):
        how = {"operator": "Equal", "value": value} if value else {"operator": "Exists"}
        spec["tolerations"] = [*tolerations, {"key": key, "effect": effect, **how}]


def _tolerates(toleration: Mapping[str, Any], key: str, value: str, effect: str) -> bool:
    """Whether a toleration covers the taint already; one that holds for a time only does not."""
    if toleration.get("tolerationSeconds") is not None or toleration.get("effect") not in (None, "", effect):
        return False
    tolerated_key, operator = toleration.get("key") or "", toleration.get("operator", "Equal")
    if operator == "Exists":
        return tolerated_key in ("", key)
    return operator == "Equal" and (tolerated_key, toleration.get("value") or "") == (key, value)


_WISHES = {"nodeAffinity": "preference", "podAffinity": "podAffinityTerm", "podAntiAffinity": "podAffinityTerm"}
"""What a term that is required becomes as a preference."""


def relax(spec: Spec, rule: str) -> None:
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


def use_label(spec: Spec, key: str, value: str, instead_key: str, instead_value: str) -> None:
    """Select nodes by another label than ``key=value``; by one more without ``key``, by one less without the other."""
    selector = spec.get("nodeSelector") or {}
    if not key or selector.get(key) == value:
        selector.pop(key, None)
        spec["nodeSelector"] = {**selector, **({instead_key: instead_value} if instead_key else {})}
    near = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = near.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for one in list(term.get("matchExpressions") or ()) if key else ():
            if one.get("key") != key or value not in (one.get("values") or [value]):
                continue
            if not instead_key:
                term["matchExpressions"].remove(one)
                continue
            one["key"] = instead_key
            if one.get("values"):
                one["values"] = [instead_value if each == value else each for each in one["values"]]
    if key and not instead_key and any(not any(term.values()) for term in required.get("nodeSelectorTerms") or ()):
        del near["requiredDuringSchedulingIgnoredDuringExecution"]  # one of its terms asks for nothing any more


def places(value: Any, fields: Collection[str], above: str = "") -> Iterator[tuple[Any, Any]]:
    """The mapping or list, and the key or number in it, of every text in one of these fields of a manifest."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for at, child in list(items):
        field = at if isinstance(at, str) else above
        if isinstance(child, str) and (field in fields or f"{above}.{at}" in fields):
            yield value, at
        yield from places(child, fields, field)
