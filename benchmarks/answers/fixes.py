"""Offered changes, carried out as a user would: by requests to the API, with new objects where fields cannot change.

Each change also tells what it touches, as ``Kind/name field``, ``+Kind name`` for what it creates and ``-Kind/name``
for what it ends; cases name the fixes that they expect in the same words. The changes are those of `docs/verdicts.md`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.answers.case import Case
from benchmarks.answers.plane import Plane
from benchmarks.answers.steps import command, written
from unisono.api.resources import to_units, to_wire
from unisono.cli.explaining import explanation_json
from unisono.sdk.explaining import Explanation

Change = dict[str, Any]
_PARTS = ("containers", "initContainers")


@dataclass(frozen=True, slots=True)
class Offer:
    """One fix that the answer offers: in words, and for programs where it has been tried."""

    text: str
    change: Change


def offers(answer: Explanation) -> list[Offer]:
    """All fixes that an answer offers, the first one first; ``change`` is empty where there are words only."""
    found: list[Offer] = []
    for verdict in explanation_json(answer)["verdicts"]:
        changes = [verdict["change"]] if verdict.get("change") else []
        changes += verdict.get("otherwise", [])
        if not changes and verdict.get("suggestion"):
            found.append(Offer(verdict["suggestion"], {}))
        found += [Offer(change["kind"], change) for change in changes]
        if pods := verdict.get("wouldRunAfter"):
            found.append(Offer("EvictPods", {"kind": "EvictPods", "pods": pods}))
    return found


def touched(case: Case, offer: Offer) -> list[str]:
    """What the change touches."""
    change, asked = offer.change, case.question
    match change.get("kind"):
        case "LowerMinAvailable":
            return [f"{asked} minAvailable"]
        case "AddNodes":
            return [f"+Node like {change['like']}"]
        case "RequestAtMost":
            return [f"{asked} requests.{name}" for name in sorted(change["amounts"])]
        case "RaiseCapability":
            return [f"queue/{change['queue']} capability"]
        case "RaiseQuota":
            return [f"quota/{change['quota']} hard"]
        case "RaiseDeserved":
            return [f"queue/{change['queue']} deserved"]
        case "RaiseWeight":
            return [f"queue/{change['queue']} weight"]
        case "OpenQueue":
            return [f"queue/{change['queue']} open"]
        case "CreateQueue":
            return [f"+Queue {change['queue']}"]
        case "CreatePods":
            return ["+Pod"]
        case "RemoveGates":
            return [f"{asked} schedulingGates"]
        case "Uncordon":
            return [f"node/{name} unschedulable" for name in change["nodes"]]
        case "AddLabels":
            return [f"node/{name} labels.{key}" for name in change["nodes"] for key in change["labels"]]
        case "AddToleration":
            return [f"{asked} tolerations.{change['key']}"]
        case "RelaxRule":
            return [f"{asked} {change['rule']}"]
        case "AllowTier":
            return [f"{asked} highestTierAllowed"]
        case "ReleasePort" | "EvictPods":
            return [f"-pod/{pod.partition('/')[2]}" for pod in change["pods"]]
        case "WaitFor":
            return ["wait"]
        case None:
            return [f"words: {offer.text}"]
        case kind:
            return [str(kind)]


def names(case: Case, offer: Offer, expected: str) -> bool:
    """Whether the offer is the expected one: every part (``;`` between them) matches something that it touches."""
    there = touched(case, offer)
    return all(any(re.fullmatch(part.strip(), one) for one in there) for part in expected.split(";"))


async def carry_out(plane: Plane, case: Case, change: Change) -> int:
    """Apply a change through the API; returns the size to which it makes the gang, or 0 where it stays."""
    match change["kind"]:
        case "LowerMinAvailable":
            await _recreate(plane, case, lambda body: _lower(body, change["to"]))
            return int(change["to"])
        case "AddNodes":
            await _add_nodes(plane, change["like"], change["count"])
        case "RequestAtMost":
            await _recreate(plane, case, lambda body: _each_pod(body, lambda spec: _request(spec, change["amounts"])))
        case "RaiseCapability":
            await _raise(plane, f"queue/{change['queue']}", "capability", change["amounts"])
        case "RaiseDeserved":
            await _raise(plane, f"queue/{change['queue']}", "deserved", change["amounts"])
        case "RaiseQuota":
            await _raise(plane, f"resourcequota/{change['quota']}", "hard", change["amounts"])
        case "RaiseWeight":
            await plane.patch(f"queue/{change['queue']}", {"spec": {"weight": change["weight"]}})
        case "OpenQueue":
            await command(plane, "OpenQueue", f"queue/{change['queue']}")
        case "CreateQueue":
            api = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
            await plane.create({**api, "metadata": {"name": change["queue"]}, "spec": {"weight": 1}})
        case "CreatePods":
            await _more_pods(plane, case, change["count"])
        case "RemoveGates":
            for pod in change["pods"]:
                await plane.patch(f"pod/{pod}", {"spec": {"schedulingGates": None}})
        case "Uncordon":
            for node in change["nodes"]:
                await plane.patch(f"node/{node}", {"spec": {"unschedulable": None}})
        case "AddLabels":
            for node in change["nodes"]:
                await plane.patch(f"node/{node}", {"metadata": {"labels": change["labels"]}})
        case "AddToleration":
            await _recreate(plane, case, lambda body: _each_pod(body, lambda spec: _tolerate(spec, change)))
        case "RelaxRule":
            await _recreate(plane, case, lambda body: _each_pod(body, lambda spec: _relax(spec, change["rule"])))
        case "AllowTier":
            await _recreate(plane, case, lambda body: _allow(body, change["tier"]))
        case "ReleasePort" | "EvictPods":
            for pod in change["pods"]:
                await plane.delete(f"pod/{pod}", gone=False)
        case "WaitFor":
            pass
        case kind:
            raise ValueError(f"no way to carry out {kind} is known here")
    return 0


# ---- the object in question


async def _recreate(plane: Plane, case: Case, edit: Callable[[dict[str, Any]], None]) -> None:
    body = written(plane, case, case.question)
    edit(body)
    if body["kind"] == "PodGroup":
        await plane.patch(case.question, {"spec": body["spec"]})
        return
    await plane.recreate(case.question, body)


def _lower(body: dict[str, Any], to: int) -> None:
    spec = body["spec"]
    if body["kind"] == "PodGroup":
        spec["minMember"] = to
    elif body["kind"] == "Job" and body["apiVersion"].startswith("batch.volcano"):
        spec["minAvailable"] = to
        for task in spec["tasks"]:
            if task.get("minAvailable") is not None:
                task["minAvailable"] = min(task["minAvailable"], to)
    elif "runPolicy" in spec or "kubeflow" in body["apiVersion"]:
        spec.setdefault("runPolicy", {}).setdefault("schedulingPolicy", {})["minAvailable"] = to
    else:
        annotations = body["metadata"].setdefault("annotations", {})
        annotations["scheduling.volcano.sh/group-min-member"] = str(to)


def _pod_specs(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
            return
        for child in value.values():
            yield from _pod_specs(child)
    elif isinstance(value, list):
        for child in value:
            yield from _pod_specs(child)


def _each_pod(body: dict[str, Any], edit: Callable[[dict[str, Any]], None]) -> None:
    for spec in _pod_specs(body["spec"] if body["kind"] != "Pod" else body):
        edit(spec)


def _request(spec: dict[str, Any], most: dict[str, int]) -> None:
    left = dict(most)
    for container in spec["containers"]:
        resources = container.get("resources", {})
        for part in ("requests", "limits"):
            for name in list(resources.get(part, {})):
                if name in left and to_units(name, resources[part][name]) > left[name]:
                    if left[name]:
                        resources[part][name] = to_wire({name: left[name]})[name]
                    else:
                        del resources[part][name]


def _tolerate(spec: dict[str, Any], change: Change) -> None:
    one = {"key": change["key"], "effect": change["effect"]}
    one |= {"operator": "Equal", "value": change["value"]} if change.get("value") else {"operator": "Exists"}
    spec["tolerations"] = [*spec.get("tolerations", []), one]


def _relax(spec: dict[str, Any], rule: str) -> None:
    if rule == "topologySpreadConstraints":
        for one in spec.get(rule, []):
            one["whenUnsatisfiable"] = "ScheduleAnyway"
        return
    part = spec.get("affinity", {}).get(rule, {})
    terms = part.pop("requiredDuringSchedulingIgnoredDuringExecution", [])
    wished = part.setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
    wished += [{"weight": 100, "podAffinityTerm": term} for term in terms]


def _allow(body: dict[str, Any], tier: int) -> None:
    spec = body["spec"]
    for one in (spec, *spec.get("tasks", []), *spec.get("subGroupPolicy", [])):
        if "networkTopology" in one:
            one["networkTopology"] = {"mode": "hard", "highestTierAllowed": tier}
        if "networkTopology" in one.get("partitionPolicy", {}):
            one["partitionPolicy"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": tier}


async def _more_pods(plane: Plane, case: Case, count: int) -> None:
    like = (await plane.pods(case.question))[0]
    for number in range(count):
        body = {"apiVersion": "v1", "kind": "Pod", "spec": copy.deepcopy(like["spec"])}
        body["metadata"] = {"name": f"{like['metadata']['name']}-more-{number}", "namespace": "default"}
        for part in ("annotations", "labels"):
            body["metadata"][part] = like["metadata"].get(part) or {}
        await plane.create(body)


# ---- other objects


async def _add_nodes(plane: Plane, like: str, count: int) -> None:
    node = await plane.get(f"node/{like}")
    labels = {key: value for key, value in node["metadata"]["labels"].items() if key != "kubernetes.io/hostname"}
    spec = {
        "name": f"added-{like}",
        "count": count,
        "capacity": {key: value for key, value in node["status"]["allocatable"].items() if key != "pods"},
        "labels": labels,
        "taints": [
            {key: taint[key] for key in ("key", "value", "effect") if key in taint}
            for taint in node["spec"].get("taints") or []
        ],
    }
    await plane.add_nodes([spec])


async def _raise(plane: Plane, title: str, field: str, amounts: dict[str, int]) -> None:
    """Raise the limits of an object by so much, as a user adds it to what stands there."""
    limits = (await plane.get(title))["spec"].get(field) or {}
    raised = {}
    for name, amount in amounts.items():
        for key in [key for key in limits if key in (name, f"requests.{name}")] or [name]:
            raised[key] = to_units(name, limits.get(key, "0")) + amount
    wire = {key: to_wire({key.removeprefix("requests."): value}).popitem()[1] for key, value in raised.items()}
    await plane.patch(title, {"spec": {field: wire}})
