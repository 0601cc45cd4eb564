"""Scheduler configurations that clusters are tried with; JSON is YAML, so both sides read the same text."""

from __future__ import annotations

from typing import Any


def _config(actions: str, *tiers: list[str | dict[str, Any]]) -> dict[str, Any]:
    options = [
        {"plugins": [option if isinstance(option, dict) else {"name": option} for option in tier]} for tier in tiers
    ]
    return {"actions": actions, "tiers": options}


_BASE: list[str | dict[str, Any]] = ["priority", "gang", "conformance"]
_PLACE: list[str | dict[str, Any]] = ["overcommit", "drf", "predicates"]
_GUARD: dict[str, Any] = {
    "name": "eviction-guard",
    "arguments": {"eviction-guard.minRunTime": "120s", "eviction-guard.maxPerCycle": 3},
}
_TREE: dict[str, Any] = {"name": "capacity", "enableHierarchy": True}
_EVICT = "enqueue, allocate, preempt, reclaim, backfill"

CONFIGS: dict[str, dict[str, Any]] = {
    "default": _config("enqueue, allocate, backfill", _BASE, [*_PLACE, "proportion", "nodeorder"]),
    "bare": _config("allocate, backfill", ["priority", "gang"], ["predicates", "binpack"]),
    "quota": _config("enqueue, allocate, backfill", _BASE, [*_PLACE, "proportion", "resourcequota", "nodeorder"]),
    "capacity": _config("enqueue, allocate, reclaim, backfill", _BASE, [*_PLACE, "capacity", "nodeorder"]),
    "hierarchy": _config(_EVICT, _BASE, ["overcommit", "predicates", _TREE, "nodeorder"]),
    "evict": _config(_EVICT, [*_BASE, "pdb"], [*_PLACE, "proportion", "nodeorder"]),
    "evict-first": _config("enqueue, reclaim, preempt, allocate, backfill", _BASE, [*_PLACE, "proportion", "binpack"]),
    "whole": _config(
        _EVICT, ["priority", "conformance"], ["overcommit", "gang", "predicates", "capacity", "nodeorder"]
    ),
    "whole-gangs": _config(
        "enqueue, allocate, gangpreempt, gangreclaim, preempt, reclaim, backfill",
        ["priority", "conformance"],
        ["overcommit", "gang", "predicates", "proportion", "nodeorder", "network-topology-aware"],
    ),
    "users": _config(_EVICT, _BASE, ["overcommit", "user-limits", "predicates", "capacity", "nodeorder"]),
    "fair": _config(
        "enqueue, allocate, backfill", _BASE, ["fair-share", "user-limits", "predicates", _TREE, "nodeorder"]
    ),
    "reserving": _config(
        _EVICT,
        [*_BASE, {"name": "reservation", "arguments": {"reservation.after": "60s"}}],
        [*_PLACE, "capacity", "nodeorder", "network-topology-aware"],
    ),
    "guarded": _config(_EVICT, [*_BASE, "pdb", _GUARD], [*_PLACE, "capacity", "nodeorder"]),
    "topology": _config(
        "enqueue, allocate, backfill", _BASE, [*_PLACE, "proportion", "nodeorder", "network-topology-aware"]
    ),
    "gang-evict": _config(
        "enqueue, allocate, gangpreempt, gangreclaim, backfill",
        [*_BASE, "pdb"],
        ["overcommit", "predicates", "capacity", "nodeorder", "network-topology-aware"],
    ),
}
"""By name."""
