"""Ways out that no scheduler knows of: suspended objects, and pods that the server refuses or that lack a scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from unisono.api import kinds
from unisono.api.annotations import QUEUE_NAMESPACES
from unisono.api.kind_families import WORKLOAD_POD_GROUPS
from unisono.api.kinds import JOBS, POD_GROUPS, PRIORITY_CLASSES, QUEUES, SERVICE_ACCOUNTS
from unisono.api.resources import to_units, to_wire
from unisono.errors import UnisonoError
from unisono.jobkinds.registry import missing_pods
from unisono.sdk import foreign
from unisono.sdk.fixes import gang_sizes, pod_specs
from unisono.sdk.fixes.fix import Fix, Operation
from unisono.sdk.fixes.operations import changed, command, create, patch
from unisono.sdk.fixes.owners import Raw
from unisono.sdk.fixes.workload_groups import named_in

_DEFAULTS = {"cpu": "1", "memory": "1Gi"}
"""What a container may use for which a quota wants a limit, where it requests nothing."""
Edit = Callable[[dict[str, Any]], None]


def resumed(owner: Raw, path: str, *, above: bool = False) -> Fix:
    """Of an object that a field suspends; ``path`` such as ``spec.runPolicy.suspend``; ``above``: it is another's."""
    body: Any = False
    for name in reversed(path.split(".")):
        body = {name: body}
    where = f"{path} of {owner['kind']} {owner['metadata']['name']}" if above else path
    return Fix(f"set {where} to false", False, {"kind": "Resume", "field": path}, tuple(_merge(owner, body)))


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
        for spec in _specs(body):
            spec["schedulerName"] = name

    text, change = f"set schedulerName to {name}", {"kind": "SetPodField", "field": "schedulerName", "value": name}
    return Fix(text, False, change, tuple(changed(owner, edit)))


def in_queue(owner: Raw, name: str, near: str) -> Fix:
    """Of an object that names a queue that does not exist; ``near``: one that does and was probably meant."""
    if not near:
        made = create(QUEUES, name, spec={"weight": 1, "reclaimable": True})
        return Fix(f"create queue {name}", False, {"kind": "CreateQueue", "queue": name}, (made,))
    change = {"kind": "UseQueue", "queue": near}
    edited = changed(owner, lambda body: gang_sizes.use_queue(body, near))
    return Fix(f"name queue {near}", False, change, tuple(edited))


def with_group(owner: Raw, name: str) -> Fix:
    """Of pods that name a PodGroup that does not exist, where none was meant that does."""
    meta = owner["metadata"]
    if named_in(owner) == name:
        pods = max(missing_pods(owner, 0), 1)
        spec = {"schedulingPolicy": {"gang": {"minCount": pods}}}
        made = create(WORKLOAD_POD_GROUPS, name, meta.get("namespace", "default"), spec=spec)
        text = f"create PodGroup {name} of scheduling.k8s.io with minCount {pods}"
        return Fix(text, False, {"kind": "CreatePodGroup", "name": name}, (made,))
    made = create(POD_GROUPS, name, meta.get("namespace", "default"), spec={"minMember": 1})
    return Fix(f"create PodGroup {name}", False, {"kind": "CreatePodGroup", "name": name}, (made,))


def admitted(queue: Raw, namespace: str) -> Fix:
    """Of an object that a queue refuses because it is for jobs of other namespaces."""
    name = queue["metadata"]["name"]
    spaces = (queue["metadata"].get("annotations") or {}).get(QUEUE_NAMESPACES, "").strip()
    notes = {QUEUE_NAMESPACES: f"{spaces}, {namespace}" if spaces else namespace}
    change = {"kind": "AllowNamespace", "queue": name, "namespace": namespace}
    text = f"let queue {name} take jobs of namespace {namespace}"
    return Fix(text, False, change, (patch(QUEUES, name, {"metadata": {"annotations": notes}}),))


def allowed(owner: Raw, message: str) -> Iterator[Fix]:
    """Of an object whose pods the server refuses, for what ``message`` says."""
    text = message[: foreign.LONGEST]
    near = foreign.MEANT.search(text)
    meant = near[1] if near else ""
    if found := foreign.ACCOUNT.search(text):
        yield _named(
            owner, found[1].rpartition("/")[2], meant, "serviceAccountName", SERVICE_ACCOUNTS, "service account"
        )
    elif found := foreign.PRIORITY_CLASS.search(text):
        yield _named(owner, found[1], meant, "priorityClassName", PRIORITY_CLASSES, "priority class")
    elif meant and foreign.RUNTIME_CLASS.search(text):
        yield _template(owner, f"name RuntimeClass {meant} in its pods", "runtimeClassName", meant)
    elif most := list(foreign.MOST.finditer(text)):
        amounts = {one[1]: one[3] for one in most}
        told = ", ".join(f"{name} {amount}" for name, amount in amounts.items())
        limited = [one[1] for one in most if one[4]]
        per_pod = {one[1]: to_units(one[1], one[3]) for one in most if one[2] == "Pod"}
        text = f"ask for at most {told} per {most[0][2].lower()}"
        yield _resized(owner, text, amounts, max_=True, limited=limited, per_pod=per_pod)
    elif above := foreign.ABOVE_LIMIT.search(text):
        yield _resized(owner, f"ask for at most {above[1]} {above[2]} per container", {above[1]: above[2]}, max_=True)
    elif least := list(foreign.LEAST.finditer(text)):
        amounts = {one[1]: one[3] for one in least}
        told = ", ".join(f"{name} {amount}" for name, amount in amounts.items())
        yield _resized(owner, f"ask for at least {told} per {least[0][2].lower()}", amounts, max_=False)
    elif ratio := foreign.RATIO.search(text):
        yield _within_ratio(owner, ratio[1], float(ratio[2]))
    elif bare := foreign.UNSTATED.search(text):
        yield _stated(owner, bare[1].replace(";", ",").replace(" ", "").split(","))
    elif foreign.UNLIMITED in text and (names := pod_specs.unlimited(owner)):
        yield _stated(owner, [f"limits.{name}" for name in names])


def _named(owner: Raw, name: str, meant: str, field: str, kind: Any, word: str) -> Fix:
    if meant:
        return _template(owner, f"name {word} {meant} in its pods", field, meant)
    namespace = owner["metadata"].get("namespace", "default") if kind.namespaced else ""
    made = create(kind, name, namespace)
    if kind is PRIORITY_CLASSES:
        made.body["value"] = 0
    text = f"create {word} {name}"
    return Fix(text, False, {"kind": f"Create{kind.kind}", "name": name}, (made,))


def _template(owner: Raw, text: str, field: str, value: Any) -> Fix:
    def edit(body: Raw) -> None:
        spec = body.get("spec") or {}
        if field == "priorityClassName" and body["kind"] != "Pod" and field in spec:
            spec[field] = value
        for pod in _specs(body):
            pod_specs.set_field(pod, field, value)
            if field == "serviceAccountName":
                pod.pop("serviceAccount", None)
            if field == "priorityClassName":
                pod.pop("priority", None)

    return Fix(text, False, {"kind": "SetPodField", "field": field, "value": value}, tuple(changed(owner, edit)))


def _resized(
    owner: Raw,
    text: str,
    amounts: Mapping[str, str],
    *,
    max_: bool,
    limited: Iterable[str] = (),
    per_pod: Mapping[str, int] = MappingProxyType({}),
) -> Fix:
    """Every container asks for no more, or no less, than this.

    ``limited``: what it limits as well, where it would be given a larger limit. ``per_pod``: most for all of them.
    """

    def edit(body: Raw) -> None:
        for spec in _specs(body):
            pod_specs.request_at_most(spec, per_pod)
            for name in limited:
                pod_specs.limit_at_most(spec, name, to_units(name, amounts[name]), whole=name in per_pod)
            for container in pod_specs.containers(spec):
                resources = container.get("resources") or {}
                for part in ("requests", "limits"):
                    _bound(resources.get(part) or {}, amounts, max_=max_)

    change = {"kind": "RequestAtMost" if max_ else "RequestAtLeast", "amounts": dict(amounts)}
    try:
        return Fix(text, False, change, tuple(changed(owner, edit)))
    except UnisonoError:
        return Fix(text, False, change)


def _bound(given: dict[str, Any], amounts: Mapping[str, str], *, max_: bool) -> None:
    for name, amount in amounts.items():
        if name in given:
            have, bound = to_units(name, given[name]), to_units(name, amount)
            if (have > bound) if max_ else (have < bound):
                given[name] = to_wire({name: bound})[name]


def _within_ratio(owner: Raw, name: str, ratio: float) -> Fix:
    """Limits of at most so many times the requests."""

    def edit(body: Raw) -> None:
        for spec in _specs(body):
            for container in pod_specs.containers(spec):
                resources = container.get("resources") or {}
                asked, most = (resources.get("requests") or {}).get(name), resources.get("limits") or {}
                if asked is not None and name in most:
                    bound = int(to_units(name, asked) * ratio)
                    most[name] = to_wire({name: min(bound, to_units(name, most[name]))})[name]

    change = {"kind": "LimitAtMost", "resource": name, "ratio": ratio}
    text = f"set limits of {name} to at most {ratio:g} times what its containers request"
    return Fix(text, False, change, tuple(changed(owner, edit)))


def _stated(owner: Raw, fields: list[str]) -> Fix:
    """Containers state what a quota counts: what they request, else a modest amount."""

    def edit(body: Raw) -> None:
        for spec in _specs(body):
            for container in pod_specs.containers(spec):
                resources = container.setdefault("resources", {})
                for field in fields:
                    part, _, name = field.partition(".")
                    other = resources.get("requests" if part == "limits" else "limits") or {}
                    amounts = resources.get(part) or {}
                    amounts.setdefault(name, other.get(name) or _DEFAULTS.get(name, "1Gi"))
                    resources[part] = amounts

    text = f"state {', '.join(fields)} in its containers"
    return Fix(text, False, {"kind": "StateAmounts", "fields": fields}, tuple(changed(owner, edit)))


def _specs(body: Raw) -> Iterator[dict[str, Any]]:
    return pod_specs.pod_specs(body)


def _merge(owner: Raw, body: Any) -> Iterator[Operation]:
    kind = kinds.find(owner["apiVersion"], owner["kind"])
    if kind is not None:
        meta = owner["metadata"]
        yield Operation("patch", kind, meta["name"], meta.get("namespace", ""), body)
