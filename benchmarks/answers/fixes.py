"""Offered changes, carried out as a user would: by requests to the API, with new objects where fields cannot change.

Each change also tells what it touches, as ``Kind/name field``, ``+Kind name`` for what it creates and ``-Kind/name``
for what it ends; cases name the fixes that they expect in the same words. The changes are those of `docs/verdicts.md`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from benchmarks.answers.case import Case
from benchmarks.answers.plane import Plane
from unisono.api.kinds import RESOURCE_SLICES
from unisono.cli.explaining import explanation_json
from unisono.sdk.fixes.applying import apply_fix
from unisono.sdk.fixes.fix import Fix
from unisono.sdk.reasons.explanation import Explanation

Change = dict[str, Any]
_OF_CARDS = frozenset(("volcano.sh/node-vgpu-register",))
"""Annotations in which device plug-ins tell the cards of their nodes."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One fix that the answer offers: in words, and for programs where it is one."""

    text: str
    change: Change
    fix: Fix | None = None


def offers(answer: Explanation) -> list[Offer]:
    """All fixes that an answer offers, the first one first; where none is, what it says to do in words."""
    found = [Offer(fix.text, fix.change, fix) for fix in answer.fixes]
    if not found:
        verdicts = explanation_json(answer)["verdicts"]
        found = [Offer(verdict["suggestion"], {}) for verdict in verdicts if verdict.get("suggestion")]
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
        case "LowerGuarantee":
            return [f"queue/{change['queue']} guarantee"]
        case "RaiseWeight":
            return [f"queue/{change['queue']} weight"]
        case "RaiseQueuePriority":
            return [f"queue/{change['queue']} priority"]
        case "OpenQueue":
            return [f"queue/{change['queue']} open"]
        case "AllowNamespace":
            return [f"queue/{change['queue']} namespaces"]
        case "UseNodeGroup":
            return [f"queue/{change['queue']} nodeGroup={change['instead']}"]
        case "SetLicenses":
            return [f"floatingresource/{change['name']} amount"]
        case "RaiseBudget":
            return [f"budget/{change['name']} amounts"]
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
        case "UseRole":
            return [f"{asked} minTaskMember.{change['instead']}"]
        case "AddAnnotation":
            return [f"{asked} annotations.{change['key']}"]
        case "RelaxRule":
            return [f"{asked} {change['rule']}"]
        case "AllowTier":
            return [f"{asked} highestTierAllowed"]
        case "ReleasePort" | "EvictPods":
            return [f"-pod/{pod.partition('/')[2]}" for pod in change["pods"]]
        case "Together":
            return [what for one in change["changes"] for what in touched(case, Offer("", one))]
        case "UseLabel":
            return [f"{asked} selector.{change['instead_key']}={change['instead_value']}"]
        case "UseResource":
            return [f"{asked} requests.{change['instead']}"]
        case "UseQueue":
            return [f"{asked} queue={change['queue']}"]
        case "UsePriority":
            return [f"{asked} priorityClassName={change['priority_class']}"]
        case "UseClaim":
            return [f"{asked} claim={change['instead']}"]
        case "CreateClaim":
            return [f"+PersistentVolumeClaim {change['name']}"]
        case "UseStorageClass":
            return [f"pvc/{change['claim']} storageClassName={change['storage_class']}"]
        case "UseDeviceClass":
            return [f"resourceclaim/{change['claim']} deviceClassName={change['instead']}"]
        case "SetPodField":
            return [f"{asked} {change['field']}={change['value']}"]
        case "CreateServiceAccount" | "CreatePriorityClass" | "CreatePodGroup":
            return [f"+{change['kind'].removeprefix('Create')} {change['name']}"]
        case "SetField":
            return [f"{asked} {change['field']}={change['value']}"]
        case "Resume":
            return [f"{asked} {change['field']}"]
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


async def carry_out(plane: Plane, offer: Offer) -> int:
    """Apply a fix through the API; returns the size to which it makes the gang, or 0 where it stays."""
    fix = offer.fix
    if fix is None:
        raise ValueError("a fix in words cannot be carried out")
    if fix.operations:
        await apply_fix(plane.client, fix)
    elif offer.change["kind"] not in ("AddNodes", "Together", "WaitFor"):
        raise ValueError(f"it cannot be applied: {fix.why_not}")
    return await _in_cluster(plane, offer.change)


async def _in_cluster(plane: Plane, change: Change) -> int:
    """What is done outside of the API: nodes. Answers as `carry_out` does."""
    match change["kind"]:
        case "AddNodes":
            await _add_nodes(plane, change["like"], change["count"])
        case "LowerMinAvailable":
            return int(change["to"])
        case "Together":
            return max([await _in_cluster(plane, one) for one in change["changes"]])
    return 0


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
    _, _, body = await plane.client.request("GET", RESOURCE_SLICES.path())
    slices = [one["spec"] for one in json.loads(body)["items"] if one["spec"].get("nodeName") == like]
    if slices:
        spec["devices"] = {one["driver"]: len(one["devices"]) for one in slices}
    await plane.add_nodes([spec])
    notes = {key: value for key, value in (node["metadata"].get("annotations") or {}).items() if key in _OF_CARDS}
    for number in range(count) if notes else ():  # as the device plug-in of the new node says it
        name = spec["name"] if count == 1 else f"{spec['name']}-{number}"
        await plane.patch(f"node/{name}", {"metadata": {"annotations": notes}})
