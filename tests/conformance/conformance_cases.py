"""Reads conformance files, runs one cycle per case and says how the outcome differs.

Two forms share this module: *recorded* cases (one expected outcome) and *differential* cases (all outcomes per job
that eight runs showed); see ``cases/README.md``.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from conformance_hypernodes import hyper_nodes_of, lowest_tier

from unisono import engine
from unisono.api import kinds
from unisono.api.decode import decode
from unisono.cluster.state import ClusterState
from unisono.engine.actions import action_names
from unisono.engine.answers import Refusal, Vote
from unisono.engine.config.model import SchedulerConfig, from_flags
from unisono.engine.config_file.reader import load_config
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.registry import plugin_names
from unisono.engine.verdict import Cause

VARIABLE = "UNISONO_CONFORMANCE_CASES"
FOLDER = Path(__file__).resolve().parent / "cases"
NOW = 1_767_312_000.0  # 2026-01-02T00:00:00Z, when the differential clusters were made


class Rejecter(Plugin):
    """What some recorded cases set beside the plug-in under test: it admits nothing named ``pgA``."""

    name = "test-rejecter"

    def enqueueable(self, job: Any) -> Vote | Refusal:
        return Refusal("pgA is never admitted", Cause.INVALID) if job.name == "pgA" else Vote.ABSTAIN


TEST_PLUGINS: dict[str, type[Plugin]] = {Rejecter.name: Rejecter}

KIND_ORDER = (
    "Namespace",
    "ResourceQuota",
    "PodDisruptionBudget",
    "CSINode",
    "PriorityClass",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "DeviceClass",
    "ResourceSlice",
    "ResourceClaim",
    "Queue",
    "HyperNode",
    "Node",
    "Numatopology",
    "PodGroup",
    "Pod",
)

_ADMITTED = "enqueue admits a job that could start by evicting others; Volcano leaves it Pending"
_FREE_FIRST = "a gang takes what is free, or left over by a victim, before it evicts; Volcano evicts for each pod"
_TAKEN_BACK = (
    "an eviction for which a later one of the cycle leaves room is taken back; Volcano evicts one pod more or two"
)
KNOWN_DIFFERENCES: dict[str, str] = {
    "F4-03": _ADMITTED,
    "F4-06": _ADMITTED,
    "F4-12": _ADMITTED,
    "F5-15": _ADMITTED,
    "F4-09": _FREE_FIRST,
    "E-preempt-0": _FREE_FIRST,
    "E-preempt-gang-0": _FREE_FIRST,
    "E-both-0": _TAKEN_BACK,
    "E-both-1": _TAKEN_BACK,
    "scheduler_plugins_drf-001": "its test compares what jobs hold, which agrees, and records no binds",
}
"""Case id to reason; docs/differences-from-volcano.md names each of them."""


def read_cases(form: str) -> list[dict[str, Any]]:
    """Cases of a form (``recorded`` or ``differential``), or those of the form in the file that the variable names."""
    named = os.environ.get(VARIABLE)
    if named and not Path(named).exists():
        raise FileNotFoundError(f"{VARIABLE} names {named}, which does not exist")
    paths = [Path(named)] if named else sorted((FOLDER / form).glob("*.jsonl"))
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    cases = [json.loads(line) for line in lines]
    return [case for case in cases if ("seen" in case) == (form == "differential")]


def missing_of(case: dict[str, Any]) -> list[str]:
    """What this version lacks to run the case: actions, plug-ins, kinds and pod features."""
    if "conf" in case:
        import yaml

        raw = yaml.safe_load(case["conf"])
        actions = [name.strip() for name in raw["actions"].split(",")]
        plugins = [plugin["name"] for tier in raw["tiers"] for plugin in tier["plugins"]]
    else:
        actions = case["config"]["actions"]
        plugins = [plugin["name"] for tier in case["config"]["tiers"] for plugin in tier["plugins"]]
    lacking = [f"action {name}" for name in actions if name not in action_names()]
    lacking += [f"plug-in {name}" for name in plugins if name not in plugin_names() and name not in TEST_PLUGINS]
    lacking += [f"kind {kind}" for kind in {o["kind"] for o in case["objects"]} if kind not in _KINDS]
    return sorted({*lacking, *(_features(case) if "predicates" in plugins else ())})


_KINDS = {kind.kind for kind in kinds.ALL_KINDS}
_FEATURES = {
    "podAffinity": "inter-pod affinity",
    "podAntiAffinity": "inter-pod affinity",
    "topologySpreadConstraints": "topology spread",
    "resourceClaims": "resource claims",
    "persistentVolumeClaim": "volumes",
}


def _features(case: dict[str, Any]) -> set[str]:
    from unisono.engine.plugins.predicates.plugin import FEATURES

    pods = json.dumps([o for o in case["objects"] if o["kind"] == "Pod"])
    return {word for key, word in _FEATURES.items() if f'"{key}"' in pods and word not in FEATURES}


def cluster_of(objects: list[dict[str, Any]]) -> ClusterState:
    """State after every object was listed."""
    state = ClusterState()
    for kind_name in KIND_ORDER:
        chosen = [value for value in objects if value["kind"] == kind_name]
        if not chosen:
            continue
        kind = kinds.find(chosen[0]["apiVersion"], kind_name)
        assert kind is not None, kind_name
        state.replace(kind, [decode(kind, value).obj for value in chosen])
    return state


def config_of(case: dict[str, Any]) -> SchedulerConfig:
    """Recorded cases bypass the defaults of a file, differential ones carry a whole file."""
    if "conf" in case:
        return load_config(case["conf"], case["id"])
    config = case["config"]
    return from_flags(
        config["actions"], [tier["plugins"] for tier in config["tiers"]], config.get("configurations") or ()
    )


def run_case(case: dict[str, Any]) -> tuple[ClusterState, Any]:
    """One cycle; a broken invariant or a plug-in that raised is a failure of its own."""
    others = [value for value in case["objects"] if value["kind"] != "HyperNode"]
    state = cluster_of([*others, *hyper_nodes_of(case)])
    return state, engine.run(state.snapshot(), config_of(case), NOW, plugins=TEST_PLUGINS)


def job_of(pod: dict[str, Any]) -> str:
    """PodGroup key of a pod object."""
    meta = pod["metadata"]
    group = (meta.get("annotations") or {}).get("scheduling.k8s.io/group-name", "")
    return f"{meta.get('namespace', 'default')}/{group}" if group else ""


def compare_recorded(case: dict[str, Any], decisions: Any) -> list[str]:
    """Differences between a recorded expectation and what was decided, one sentence each."""
    expect, wrong = case["expect"], [f"violation: {violation}" for violation in decisions.violations]
    binds = {f"{bind.namespace}/{bind.pod}": bind.node for bind in decisions.binds}
    evicted = sorted(f"{eviction.namespace}/{eviction.pod}" for eviction in decisions.evictions)
    if len(binds) != expect["bindCount"]:
        wrong.append(f"{len(binds)} binds instead of {expect['bindCount']}: {binds}")
    if "binds" in expect and binds != expect["binds"]:
        wrong.append(f"binds {binds} instead of {expect['binds']}")
    if evicted != sorted(expect["evicted"]):
        wrong.append(f"evicted {evicted} instead of {expect['evicted']}")
    jobs = {
        f"{p['metadata']['namespace']}/{p['metadata']['name']}": job_of(p)
        for p in case["objects"]
        if p["kind"] == "Pod"
    }
    for job, nodes in expect.get("pipelinedNodes", {}).items():
        chosen = {p.node for p in decisions.pipelined if jobs[f"{p.namespace}/{p.pod}"] == job}
        if not chosen or not chosen <= set(nodes):
            wrong.append(f"{job} pipelined to {sorted(chosen)} instead of {nodes}")
    phases = {
        f"{g['metadata']['namespace']}/{g['metadata']['name']}": (g.get("status") or {}).get("phase") or "Pending"
        for g in case["objects"]
        if g["kind"] == "PodGroup"
    }
    phases.update({update.key: update.phase for update in decisions.pod_groups})
    for job, phase in expect.get("podGroupPhase", {}).items():
        if phases.get(job) != phase:
            wrong.append(f"phase of {job} is {phases.get(job)} instead of {phase}")
    bound = Counter(jobs[pod] for pod in binds)
    for job, counts in expect.get("taskStatusCounts", {}).items():
        if "Binding" in counts and bound[job] != counts["Binding"]:
            wrong.append(f"{bound[job]} pods of {job} are bound instead of {counts['Binding']}")
    return wrong + _compare_domains(case, binds)


def _compare_domains(case: dict[str, Any], binds: dict[str, str]) -> list[str]:
    wanted = case["expect"].get("bindCountsPerHyperNode")
    if wanted is None:
        return []
    leaf = {node: name for name, nodes in lowest_tier(case).items() for node in nodes}
    counts = sorted(Counter(leaf[node] for node in binds.values()).values())
    return [] if counts == wanted else [f"binds per HyperNode {counts} instead of {wanted}"]


def outcome(case: dict[str, Any], decisions: Any) -> dict[str, dict[str, int]]:
    """Pods bound, pipelined and evicted per job, as the differential file writes it."""
    jobs = {
        f"{p['metadata']['namespace']}/{p['metadata']['name']}": job_of(p)
        for p in case["objects"]
        if p["kind"] == "Pod"
    }
    return {
        "bound": dict(Counter(jobs[f"{b.namespace}/{b.pod}"] for b in decisions.binds)),
        "pipelined": dict(Counter(jobs[f"{p.namespace}/{p.pod}"] for p in decisions.pipelined)),
        "evicted": dict(Counter(jobs[f"{e.namespace}/{e.pod}"] for e in decisions.evictions)),
    }


def compare_differential(case: dict[str, Any], decisions: Any) -> list[str]:
    """Whether the outcome per job (and, for scores, the load per node) is among those seen."""
    wrong = [f"violation: {violation}" for violation in decisions.violations]
    got = outcome(case, decisions)
    if got not in case["seen"]["jobs"]:
        wrong.append(f"outcome {got} is none of {case['seen']['jobs']}")
    load = sorted(Counter(b.node for b in [*decisions.binds, *decisions.pipelined]).values())
    if case["id"].startswith("F7") and load not in case["seen"]["load"]:
        wrong.append(f"pods per node {load} are none of {case['seen']['load']}")
    return wrong
