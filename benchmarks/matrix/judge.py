"""What is wrong with a live control plane, seen from outside: through its API, and by what the engine decides."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks.answers.case import Case
from benchmarks.answers.plane import Plane, plane, unadvised
from benchmarks.check.facts import Amounts, Facts, Pod, Turn, add, amounts
from benchmarks.check.rules import licenses
from benchmarks.check.rules.conserving import fitting
from benchmarks.matrix.draw import CARD, container
from benchmarks.matrix.features import Made, made
from unisono.engine.answers import BUDGET, CALENDAR, RUN_TIME
from unisono.kube.discovery import request_json
from unisono.standalone.shadow import VirtualLoop

_BETWEEN, _REST, _APART = 60.0, 240.0, 60.0
_LONGEST = 20
"""As often it is looked until nothing is written any more: jobs that end make others start."""
_GROUPS = "/apis/scheduling.volcano.sh/v1beta1"
_KINDS = {
    "/api/v1/nodes": "Node",
    "/api/v1/pods": "Pod",
    "/api/v1/resourcequotas": "ResourceQuota",
    "/apis/scheduling.k8s.io/v1/priorityclasses": "PriorityClass",
    f"{_GROUPS}/queues": "Queue",
    f"{_GROUPS}/podgroups": "PodGroup",
    "/apis/topology.volcano.sh/v1alpha1/hypernodes": "HyperNode",
    "/apis/quota.unisono.io/v1alpha1/floatingresources": "FloatingResource",
    "/apis/batch.volcano.sh/v1alpha1/jobs": "VolcanoJob",
    "/apis/flow.volcano.sh/v1alpha1/jobflows": "JobFlow",
    "/apis/quota.unisono.io/v1alpha1/budgets": "Budget",
    "/apis/calendar.unisono.io/v1alpha1/reservations": "Reservation",
    "/apis/health.unisono.io/v1alpha1/nodechecks": "NodeCheck",
}
_MACHINES = {"/apis/cluster.x-k8s.io/v1beta2/machinedeployments": "MachineDeployment"}
_LIMITS = ("OverCapability", "OverShare", "Licenses", "Budget", "Quota")
"""Causes of verdicts that are about no node."""
_TIME_IS_OVER = (BUDGET, CALENDAR, RUN_TIME)
"""Reasons of evictions that are for no other job."""
_COUNTING = ("Node", "NodeCheck", "Budget")
"""Kinds whose status goes on by design: heartbeats, checks that are due, and what is used."""


class Witness:
    """The engine, and what it decided: beneficiaries of evictions and parts that broke an invariant.

    Attributes:
        beneficiaries: uids of the pods that each had when pods were evicted for it for the last time.
        violations: texts.
    """

    def __init__(self) -> None:
        self.beneficiaries: dict[str, set[str]] = {}
        self.violations: list[str] = []

    def decide(self, snapshot: Any, *given: Any, **more: Any) -> Any:
        """One cycle."""
        decisions = unadvised(snapshot, *given, **more)
        for one in decisions.evictions:
            pod = snapshot.tasks_on.get(one.node, {}).get(f"{one.namespace}/{one.pod}")
            if one.reason in _TIME_IS_OVER and pod is not None:  # it ran, for as long as it might
                self.beneficiaries.pop(pod.job, None)
            if one.beneficiary:
                gang = snapshot.jobs.get(one.beneficiary)
                self.beneficiaries[one.beneficiary] = {task.uid for task in gang.tasks.values()} if gang else set()
        self.violations += [f"{one.subject}: {one.message}" for one in decisions.violations]
        return decisions


async def _look(live: Plane, cluster: Made) -> Facts:
    objects = []
    for path, kind in (_KINDS | (_MACHINES if any("max" in each for each in cluster.nodes) else {})).items():
        items = (await request_json(live.client, "GET", path))["items"]
        objects += [{**item, "kind": kind, "status": item.get("status") or {}} for item in items]
    return Facts.of(objects)


def _waiting(facts: Facts, cluster: Made) -> set[str]:
    """PodGroups that wait though they fit beside what is kept free on purpose; where in doubt, it is kept."""
    kept: set[str] = set()
    for window in facts.all("Reservation").values():
        kept |= set(window["spec"]["nodes"]) if window["status"].get("phase") != "Over" else set()
    if facts.all("NodeCheck") or any("hot-spares" in str(one["metadata"]) for one in facts.all("Queue").values()):
        kept |= facts.all("Node").keys() - {pod.node for pod in facts.pods.values() if pod.occupies and pod.group}
    nodes = facts.all("Node")
    for name in kept & nodes.keys():
        nodes[name]["spec"]["unschedulable"] = True
    if any(one["spec"].get("starts") == "IfItFits" for one in facts.all("Budget").values()):
        return set()
    turn = Turn(facts, cluster.config, 0.0, [], [], {}, {})
    found = {key for key in fitting(turn) if not kinds_of(facts, key)}
    for labels in {tuple(sorted(labels.items())) for key in facts.groups for labels, times in kinds_of(facts, key)}:
        found |= {key for key in _fitting_on(turn, dict(labels)) if (dict(labels), 1) in kinds_of(facts, key)}
    return found


def _fitting_on(turn: Turn, labels: Mapping[str, str]) -> list[str]:
    """The same on nodes of one kind alone."""
    nodes = turn.facts.all("Node")
    others = [one["spec"] for one in nodes.values() if not labels.items() <= one["metadata"]["labels"].items()]
    others = [spec for spec in others if not spec.get("unschedulable")]
    for spec in others:
        spec["unschedulable"] = True
    found = fitting(turn)
    for spec in others:
        spec["unschedulable"] = False
    return found


def beyond(facts: Facts) -> list[str]:
    """Limits of queues, users and namespaces that are not kept."""
    held: dict[str, Amounts] = {}
    users: dict[tuple[str, str], Amounts] = {}
    spaces: dict[str, Amounts] = {}
    for pod in facts.pods.values():
        if not pod.ended:
            add(spaces.setdefault(pod.namespace, {}), pod.requests)
        if not pod.occupies or pod.group not in facts.all("PodGroup"):
            continue
        more = {**pod.requests, "pods": Fraction(1)}
        queue = facts.queue_of(pod.group)
        add(users.setdefault((queue, facts.user_of(pod.group)), {}), more)
        for name in facts.lineage(queue):
            add(held.setdefault(name, {}), more)
    found = []
    for name, limited in facts.all("Queue").items():
        for resource, most in amounts(limited["spec"].get("capability")).items():
            if held.get(name, {}).get(resource, 0) > most:
                found.append(f"queue {name} holds {float(held[name][resource])} of {resource} and may hold {most}")
    for (name, user), mine in users.items():
        for resource, most in facts.user_limits(name).items():
            if mine.get(resource, 0) > most:
                found.append(f"user {user} holds {float(mine[resource])} of {resource} in {name} and may hold {most}")
    for key, quota in facts.all("ResourceQuota").items():
        for resource, most in amounts(quota["spec"]["hard"]).items():
            used = spaces.get(key.partition("/")[0], {}).get(resource.removeprefix("requests."), Fraction(0))
            if used > most:
                found.append(f"quota {key} allows {most} of {resource} and {float(used)} are used")
    turn = Turn(facts, {}, 0.0, [], [], {}, {})
    for resource, used in licenses.taken(turn, [pod for pod in facts.pods.values() if pod.occupies]).items():
        if used > licenses.there(turn, resource):
            found.append(f"{float(used)} of {resource} are held and there are {float(licenses.there(turn, resource))}")
    return found


def _changed(earlier: Facts, later: Facts) -> set[str]:
    """Objects whose version rose."""
    return {
        f"{kind} {key}"
        for kind, objects in later.objects.items()
        for key, item in objects.items()
        if kind not in _COUNTING and item["metadata"]["resourceVersion"] != _version(earlier, kind, key)
    }


def _of_checks(facts: Facts) -> set[str]:
    """PodGroups and pods that wait for nodes while such are checked each minute: they are told which are closed now."""
    if not any(check["spec"].get("idleEvery") == "1m" for check in facts.all("NodeCheck").values()):
        return set()
    found = set()
    for key, group in facts.all("PodGroup").items():
        said = (group["metadata"].get("annotations") or {}).get("unisono.io/verdict")
        if said and json.loads(said).get("cause") not in _LIMITS:
            found |= {f"PodGroup {key}", *(f"Pod {pod.key}" for pod in facts.members(key))}
    return found


def _version(facts: Facts, kind: str, key: str) -> str:
    found = facts.all(kind).get(key)
    return str(found["metadata"]["resourceVersion"]) if found is not None else ""


def _wrong(facts: Facts, cluster: Made) -> list[str]:
    """What is wrong at any time."""
    templates = {
        f"{body['metadata']['namespace']}/{body['metadata']['name']}": amounts(
            container(body)["resources"].get("limits")
        )
        for wave in cluster.waves
        for body in wave
        if body["kind"] == "Job" and "tasks" in body["spec"]
    }
    found = [*beyond(facts), *of_one_kind(facts, templates)]
    for group in cluster.nodes:
        there = [name for name in facts.all("Node") if name.startswith(f"{group['name']}-")]
        if len(there) > (most := group["max" if "max" in group else "count"]):
            found.append(f"there are {len(there)} nodes of group {group['name']}, which may have {most}")
    for key, job in facts.all("VolcanoJob").items():
        replicas = (job["metadata"].get("annotations") or {}).get("unisono.io/max-replicas")
        if replicas and job["spec"]["tasks"][-1]["replicas"] > int(replicas):
            found.append(f"job {key} has {job['spec']['tasks'][-1]['replicas']} replicas and may have {replicas}")
    return found


async def _judged(cluster: Made, folder: Path) -> list[str]:
    witness = Witness()
    given = Case("matrix", "", "queue/a", [], [], cluster.before, cluster.nodes, cluster.text, [], [], [], 0, 0.0)
    found: list[str] = []
    async with plane(given, folder, witness.decide) as live:
        for name, labels in cluster.labels.items():
            await live.patch(f"node/{name}", {"metadata": {"labels": labels}})
        for wave in cluster.waves:
            for body in wave:
                await live.create(body)
            await asyncio.sleep(_BETWEEN)
            found += _wrong(await _look(live, cluster), cluster)
        await asyncio.sleep(_REST)
        seen = [await _look(live, cluster)]
        written: list[set[str]] = []
        while len(seen) < 3 or (written[-1] & written[-2] and len(seen) < _LONGEST):
            await asyncio.sleep(_APART)
            seen.append(await _look(live, cluster))
            written.append(_changed(seen[-2], seen[-1]) - _of_checks(seen[-1]))
        found += _wrong(seen[-1], cluster)
        first, second, third = (_waiting(one, cluster) for one in seen[-3:])
        found += [f"PodGroup {key} waits though it fits" for key in sorted(first & second & third)]
        found += [f"{key} is written again and again" for key in sorted(written[-1] & written[-2])]
        last = seen[-1]
        for key, had in witness.beneficiaries.items():
            group = last.all("PodGroup").get(key)
            have = sum(1 for pod in last.members(key) if pod.counts or pod.ended)
            if group is not None and have < (group["spec"].get("minMember") or 0):
                found.append(f"pods were evicted for {key}, which has {have} of {group['spec']['minMember']} pods")
            now = {pod.raw["metadata"]["uid"] for pod in last.members(key)}
            if any(times > 1 for _, times in kinds_of(last, key)) and not had & now:
                found.append(f"pods were evicted for {key}, whose pods were made again")
    return [*dict.fromkeys([*found, *witness.violations])]


def judge(seed: int, folder: Path) -> list[str]:
    """What is wrong with the cluster of a seed; ``folder`` keeps certificates from one to the next."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_judged(made(seed), folder))


# Whether gangs that name kinds of nodes are on one of them, with as much of it as they say there.


Kind = tuple[dict[str, str], int]
"""Labels of its nodes, and how many times as many cards a pod takes there."""


def _list_of(facts: Facts, group: str) -> str:
    found = facts.all("PodGroup").get(group)
    notes = (found["metadata"].get("annotations") or {}) if found is not None else {}
    return str(notes.get("unisono.io/one-of", ""))


def kinds_of(facts: Facts, group: str) -> list[Kind]:
    """The kinds that a PodGroup names."""
    kinds = []
    for part in filter(None, _list_of(facts, group).split(",")):
        words, _, times = part.strip().partition("@")[0].partition("*")
        kinds.append((dict(one.split("=") for one in words.split("+")), int(times or 1)))
    return kinds


def of_one_kind(facts: Facts, templates: Mapping[str, Amounts]) -> list[str]:
    """Gangs whose pods are on nodes of several kinds or of none that they name, or hold other amounts than they say.

    Args:
        facts: of a cluster.
        templates: what a pod of each job, by namespace and name, asks for.
    """
    wrong = []
    for key in facts.groups:
        kinds, there = kinds_of(facts, key), [pod for pod in facts.members(key) if pod.occupies]
        cards = templates.get(key.partition("-0000")[0], {}).get(CARD, Fraction(0))
        if kinds and not any(_is_on(facts, there, labels, times * cards) for labels, times in kinds):
            where = ", ".join(f"{pod.node} with {pod.requests.get(CARD, 0)}" for pod in there)
            wrong.append(f"PodGroup {key} names {_list_of(facts, key)} and is on {where}")
    return wrong


def _is_on(facts: Facts, pods: Sequence[Pod], labels: Mapping[str, str], cards: Fraction) -> bool:
    """Whether all pods are on nodes with these labels, and hold so many cards each."""
    nodes = facts.all("Node")
    return all(
        pod.requests.get(CARD, Fraction(0)) == cards
        and labels.items() <= nodes.get(pod.node, {"metadata": {"labels": {}}})["metadata"]["labels"].items()
        for pod in pods
    )
