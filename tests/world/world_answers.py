"""What waiting jobs are told would start them, carried out as their owners would, by what stands on their PodGroups.

A change that was tried starts the job in the next cycle, says ``docs/verdicts.md``: so it must.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from benchmarks.check.facts import quantity
from world_nevers import Truth
from world_story import VOLCANO, Deed

_VERDICT, _BATCH = "unisono.io/verdict", "batch.volcano.sh/v1alpha1"
_THOUSAND = 1000


def waiting(truth: Truth) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """PodGroups that have less than they need, and what their verdicts say; nothing where they have none."""
    facts = truth.facts()
    for key, group in sorted(facts.all("PodGroup").items()):
        # One that is not admitted has no pods yet.
        waits = group["status"].get("phase") == "Pending" or any(pod.waits for pod in facts.members(key))
        if waits and needs(truth, key, 0):
            yield key, json.loads((group["metadata"].get("annotations") or {}).get(_VERDICT) or "{}")


def needs(truth: Truth, key: str, least: int) -> str:
    """What a PodGroup lacks of starting, with ``least`` pods instead of its own minimum where that is given."""
    facts = truth.facts()
    group = facts.all("PodGroup").get(key)
    have = sum(1 for pod in facts.members(key) if pod.counts)
    wanted = 0 if group is None else least or group["spec"].get("minMember") or 0
    return f"{have} of {wanted} pods are placed" if have < wanted else ""


def offers(truth: Truth, key: str, verdict: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], list[Deed]]]:
    """The changes that are said to have been tried, and how to make each where a world knows that."""
    for change in (verdict.get("change") or {}, *(verdict.get("otherwise") or ())):
        if change.get("tried", True):
            parts = change.get("changes") if change.get("kind") == "Together" else [change]
            made = [_deed(truth, key, part) for part in parts or ()]
            known = [deed for deed in made if deed is not None]
            if known and len(known) == len(made):
                yield change, known


def _deed(truth: Truth, key: str, change: Mapping[str, Any]) -> Deed | None:
    match change.get("kind"):
        case "LowerMinAvailable":
            owners = truth.facts().all("PodGroup")[key]["metadata"].get("ownerReferences") or ()
            jobs = [one["name"] for one in owners if one["kind"] == "Job" and one["apiVersion"] == _BATCH]
            return _patch(_BATCH, "Job", jobs[0], {"minAvailable": change["to"]}) if jobs else None
        case "AddNodes":
            return Deed(0.0, "join", (change["like"], change["count"]))
        case "Uncordon" if len(change["nodes"]) == 1:
            return _patch("v1", "Node", change["nodes"][0], {"unschedulable": None})
        case "RaiseCapability":
            name = change["queue"]
            return _patch(VOLCANO, "Queue", name, {"capability": _raised(truth, "Queue", name, "capability", change)})
        case "RaiseQuota":
            name = change["quota"]
            hard = _raised(truth, "ResourceQuota", f"default/{name}", "hard", change)
            return _patch("v1", "ResourceQuota", name, {"hard": hard})
    return None


def _patch(version: str, kind: str, name: str, spec: Mapping[str, Any]) -> Deed:
    return Deed(0.0, "patch", (version, kind, name, {"spec": spec}))


def _raised(truth: Truth, kind: str, key: str, field: str, change: Mapping[str, Any]) -> dict[str, str]:
    """Limits that are higher by amounts as the scheduler counts them: bytes, and thousandths of all else."""
    limits = truth.facts().all(kind)[key]["spec"][field]
    found = {}
    for name, more in change["amounts"].items():
        part = Fraction(more) if "memory" in name or "storage" in name else Fraction(more, _THOUSAND)
        total = quantity(limits[name]) + part
        found[name] = str(total) if total.denominator == 1 else f"{total * _THOUSAND}m"
    return found
