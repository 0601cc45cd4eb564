"""Ways out that no scheduler knows of: fields that stop an object, names that nothing has, amounts that are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from unisono.api import pod_edits
from unisono.api.annotations import QUEUE_NAMESPACES
from unisono.api.kind import Kind
from unisono.api.kind_families import WORKLOAD_POD_GROUPS
from unisono.api.kinds import JOBS, POD_GROUPS, QUEUES
from unisono.api.resources import to_units, to_wire
from unisono.errors import UnisonoError
from unisono.jobkinds.registry import missing_pods
from unisono.sdk import foreign
from unisono.sdk.fixes import pod_specs
from unisono.sdk.fixes.edits import set_field
from unisono.sdk.fixes.fix import Fix
from unisono.sdk.fixes.operations import changed, command, create, patch, patch_of
from unisono.sdk.fixes.owners import Edit, Raw
from unisono.sdk.fixes.references import for_missing
from unisono.sdk.fixes.workload_groups import named_in

_DEFAULTS = {"cpu": "1", "memory": "1Gi"}
"""What a container may use for which a quota wants a limit, where it requests nothing."""


def _edited(root: Raw, text: str, change: dict[str, Any], edit: Edit) -> Fix:
    return Fix(text, False, change, tuple(changed(root, edit)))


# ---- fields that stop it


def for_fields(root: Raw, empty: str, stalled: str, messages: Iterable[str]) -> Iterator[Fix]:
    """What is to be changed in the object itself.

    Args:
        root: the object that a user wrote.
        empty: the field by which it wants no pods.
        stalled: why it has none.
        messages: what controllers, the server and the scheduler say.
    """
    if empty:
        yield set_to(root, empty, 1, f"set {empty} to 1")
    for message in (stalled, *messages):
        yield from named(root, message)


def set_to(root: Raw, path: str, value: Any, text: str) -> Fix:
    """A field of the object gets another value; None: it goes."""
    change = {"kind": "SetField", "field": path, "value": value}
    return _edited(root, text, change, lambda body: set_field(body, path, value))


def named(root: Raw, text: str) -> Iterator[Fix]:
    """For a message of a controller, a node or the server that says which name does not exist."""
    missing = foreign.missing_key(text) or foreign.missing_name(text)
    if missing is not None:
        yield from for_missing(root, missing)


def resumed(owner: Raw, path: str, *, above: bool = False) -> Fix:
    """Of an object that a field suspends; ``path`` such as ``spec.runPolicy.suspend``; ``above``: it is another's."""
    body: Any = False
    for name in reversed(path.split(".")):
        body = {name: body}
    where = f"{path} of {owner['kind']} {owner['metadata']['name']}" if above else path
    return Fix(f"set {where} to false", False, {"kind": "Resume", "field": path}, tuple(patch_of(owner, body)))


def restarted(owner: Raw) -> Fix:
    """Of a Volcano Job that was aborted."""
    meta = owner["metadata"]
    one = command(JOBS, meta["name"], meta.get("uid", ""), "ResumeJob", meta.get("namespace", "default"))
    return Fix("resume the job", False, {"kind": "ResumeJob", "job": meta["name"]}, (one,))


def scheduled_by(owner: Raw, name: str) -> Fix:
    """Of an object that names a scheduler that does not run."""

    def edit(body: Raw) -> None:
        if "schedulerName" in (body.get("spec") or {}) and body["kind"] != "Pod":
            body["spec"]["schedulerName"] = name
        for spec in pod_specs.pod_specs(body):
            spec["schedulerName"] = name

    change = {"kind": "SetPodField", "field": "schedulerName", "value": name}
    return _edited(owner, f"set schedulerName to {name}", change, edit)


def with_group(owner: Raw, name: str) -> Fix:
    """Of pods that name a PodGroup that does not exist, where none was meant that does."""
    kind: Kind[Any] = POD_GROUPS
    spec, text = dict[str, Any](minMember=1), f"create PodGroup {name}"
    if named_in(owner) == name:
        pods = max(missing_pods(owner, 0), 1)
        kind, spec = WORKLOAD_POD_GROUPS, {"schedulingPolicy": {"gang": {"minCount": pods}}}
        text += f" of scheduling.k8s.io with minCount {pods}"
    made = create(kind, name, owner["metadata"].get("namespace", "default"), spec=spec)
    return Fix(text, False, {"kind": "CreatePodGroup", "name": name}, (made,))


def admitted(queue: Raw, namespace: str) -> Fix:
    """Of an object that a queue refuses because it is for jobs of other namespaces."""
    name = queue["metadata"]["name"]
    spaces = (queue["metadata"].get("annotations") or {}).get(QUEUE_NAMESPACES, "").strip()
    notes = {QUEUE_NAMESPACES: f"{spaces}, {namespace}" if spaces else namespace}
    change = {"kind": "AllowNamespace", "queue": name, "namespace": namespace}
    text = f"let queue {name} take jobs of namespace {namespace}"
    return Fix(text, False, change, (patch(QUEUES, name, {"metadata": {"annotations": notes}}),))


# ---- amounts that the server refuses


def allowed(owner: Raw, message: str) -> Iterator[Fix]:
    """Of an object whose pods the server refuses for what they ask for, as ``message`` says."""
    text = message[: foreign.LONGEST]
    if most := list(foreign.MOST.finditer(text)):
        yield _at_most(owner, {one[1]: one[3] for one in most}, most[0][2].lower(), most)
    elif above := foreign.ABOVE_LIMIT.search(text):
        yield _at_most(owner, {above[1]: above[2]}, "container", ())
    elif least := list(foreign.LEAST.finditer(text)):
        amounts = {one[1]: one[3] for one in least}
        change = {"kind": "RequestAtLeast", "amounts": amounts}
        description = f"ask for at least {_told(amounts)} per {least[0][2].lower()}"
        yield _resized(owner, description, change, lambda given: _bound(given, amounts, max))
    elif (size := foreign.CLAIM_SIZE.search(text)) and any(pod_specs.claim_specs(owner)):
        yield _claims_of_size(owner, size[1], size[2])
    elif ratio := foreign.RATIO.search(text):
        yield _within_ratio(owner, ratio[1], float(ratio[2]))
    elif bare := foreign.UNSTATED.search(text):
        yield _stated(owner, bare[1].replace(";", ",").replace(" ", "").split(","))
    elif foreign.UNLIMITED in text and (names := pod_specs.unlimited(owner)):
        yield _stated(owner, [f"limits.{name}" for name in names])


def _told(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())


def _resized(
    owner: Raw, text: str, change: dict[str, Any], resize: Callable[[Raw], None], before: Edit = lambda spec: None
) -> Fix:
    """What every container requests, and its limits, become other amounts; ``before``: an edit of each pod's spec."""

    def edit(body: Raw) -> None:
        for spec in pod_specs.pod_specs(body):
            before(spec)
            for container in pod_edits.containers(spec):
                for part in ("requests", "limits"):
                    resize((container.get("resources") or {}).get(part) or {})

    try:
        return _edited(owner, text, change, edit)
    except UnisonoError:
        return Fix(text, False, change)


def _bound(given: Raw, amounts: Mapping[str, str], which: Callable[[int, int], int]) -> None:
    for name in amounts.keys() & given.keys():
        have, bound = to_units(name, given[name]), to_units(name, amounts[name])
        if which(have, bound) != have:
            given[name] = to_wire({name: bound})[name]


def _at_most(owner: Raw, amounts: Mapping[str, str], whose: str, found: Iterable[Any]) -> Fix:
    """Every container asks for no more, ``found``: as the server said it; of a pod, all of them together."""
    units = {name: to_units(name, amount) for name, amount in amounts.items()}
    per_pod = {one[1]: units[one[1]] for one in found if one[2] == "Pod"}
    limited = [one[1] for one in found if one[4]]  # they would be given a larger limit

    def before(spec: Raw) -> None:
        pod_edits.request_at_most(spec, per_pod)
        for name in limited:
            pod_specs.limit_at_most(spec, name, units[name], whole=name in per_pod)

    change = {"kind": "RequestAtMost", "amounts": dict(amounts)}
    text = f"ask for at most {_told(amounts)} per {whose}"
    return _resized(owner, text, change, lambda given: _bound(given, amounts, min), before)


def _claims_of_size(owner: Raw, which: str, amount: str) -> Fix:
    """Claims that are made for it ask for no less than the minimum, no more than the maximum."""
    bound, words = (max, "at least") if which == "minimum" else (min, "at most")

    def edit(body: Raw) -> None:
        for one in pod_specs.claim_specs(body):
            _bound(one["resources"].get("requests") or {}, {"storage": amount}, bound)

    change = {"kind": "ResizeClaims", "storage": amount}
    return _edited(owner, f"ask for {words} storage {amount} per claim", change, edit)


def _within_ratio(owner: Raw, name: str, ratio: float) -> Fix:
    """Limits of at most so many times the requests."""

    def edit(spec: Raw) -> None:
        for container in pod_edits.containers(spec):
            resources = container.get("resources") or {}
            asked, most = (resources.get("requests") or {}).get(name), resources.get("limits") or {}
            if asked is not None and name in most:
                bound = int(to_units(name, asked) * ratio)
                most[name] = to_wire({name: min(bound, to_units(name, most[name]))})[name]

    change = {"kind": "LimitAtMost", "resource": name, "ratio": ratio}
    text = f"set limits of {name} to at most {ratio:g} times what its containers request"
    return _edited(owner, text, change, pod_specs.each_pod(edit))


def _stated(owner: Raw, fields: list[str]) -> Fix:
    """Containers state what a quota counts: what they request, else a modest amount."""

    def edit(spec: Raw) -> None:
        for container in pod_edits.containers(spec):
            resources = container.setdefault("resources", {})
            for field in fields:
                part, _, name = field.partition(".")
                other = resources.get("requests" if part == "limits" else "limits") or {}
                amounts = resources.get(part) or {}
                amounts.setdefault(name, other.get(name) or _DEFAULTS.get(name, "1Gi"))
                resources[part] = amounts

    text = f"state {', '.join(fields)} in its containers"
    return _edited(owner, text, {"kind": "StateAmounts", "fields": fields}, pod_specs.each_pod(edit))
