"""Attacks by what pods ask of each other and of nodes: terms, selectors, spreads, tolerations, claims."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.tenant.scheduling import job, pod, vcjob
from benchmarks.tenant.table import attack
from benchmarks.tenant.world import Body, World

_HOST = "kubernetes.io/hostname"
_CLAIMS = "resource.k8s.io/v1"


def _term(labels: Body, **more: Any) -> Body:
    return {"labelSelector": labels, "topologyKey": _HOST, **more}


def _preferred(terms: list[Body]) -> Body:
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": each} for each in terms]
    }


async def _pods(w: World, specs: list[Body], labels: Body) -> None:
    await w.many(
        w.post("pods", {"metadata": {"name": f"p{n}", "labels": labels}, "spec": spec}) for n, spec in enumerate(specs)
    )
    await asyncio.sleep(3)


@attack("150 pods of 60 affinity terms each, and 10 of 2,000")
async def many_terms(w: World) -> None:
    def one(number: int) -> Body:
        count = 2_000 if number % 16 == 15 else 40
        own = [_term({"matchLabels": {f"k{number}-{n}": "v"}}, namespaceSelector={}) for n in range(count)]
        away = [_term({"matchLabels": {f"a{number}-{n}": "v"}}) for n in range(10)]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": away}
        return pod(affinity={"podAffinity": _preferred(own), "podAntiAffinity": {**required, **_preferred(own[:10])}})

    await _pods(w, [one(n) for n in range(160)], {})


@attack("200 pods of 60 topology spread constraints, each with a selector of its own")
async def spreads(w: World) -> None:
    def one(number: int) -> Body:
        each = [
            {
                "maxSkew": 1,
                "topologyKey": f"zone-{n}" if n else _HOST,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchExpressions": [{"key": f"k{number}-{n}", "operator": "DoesNotExist"}]},
            }
            for n in range(60)
        ]
        return pod(topologySpreadConstraints=each)

    await _pods(w, [one(n) for n in range(200)], {"app": "x"})


@attack("1,000 pods that want each other by two terms, and have labels of their own")
async def composites(w: World) -> None:
    async def one(n: int) -> None:
        terms = [
            _term({"matchExpressions": [{"key": f"{side}{n}", "operator": "NotIn", "values": ["x"]}]})
            for side in ("a", "b")
        ]
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        await w.post(
            "pods", {"metadata": {"name": f"p{n}", "labels": {f"own{n}": "v"}}, "spec": pod(affinity=affinity)}
        )

    await w.many(one(n) for n in range(1_000))
    await asyncio.sleep(3)


@attack("affinity terms that name 3,000 namespaces and 5,000 values, and ten times as many")
async def wide(w: World) -> None:
    def one(number: int) -> Body:
        times = 10 if number % 10 == 9 else 1
        values = [f"v{number}-{n}" for n in range(5_000 * times)]
        labels = {"matchExpressions": [{"key": "app", "operator": ("In", "NotIn")[number % 2], "values": values}]}
        names = [f"team-{number}-{n}" for n in range(3_000 * times)]
        return pod(affinity={"podAffinity": _preferred([_term(labels, namespaces=names)])})

    await _pods(w, [one(n) for n in range(100)], {"app": "v0-0"})


@attack("150 pods of 500 tolerations, 1,000 host ports and 500 volumes of claims, and 10 of 5,000 tolerations")
async def crowded(w: World) -> None:
    def one(number: int) -> Body:
        count = 5_000 if number % 16 == 15 else 500
        spec = pod(tolerations=[{"key": f"k{number}-{n}", "operator": "Exists"} for n in range(count)])
        ports = [{"containerPort": n + 1, "hostPort": 1 + (n + number * 7) % 60_000} for n in range(1_000)]
        spec["containers"][0]["ports"] = ports
        spec["volumes"] = [
            {"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"c{number}-{n}"}} for n in range(500)
        ]
        return spec

    await _pods(w, [one(n) for n in range(160)], {})


@attack("60 claims whose devices have 10^20 combinations, with constraints that none meets")
async def combinations(w: World) -> None:
    names = [f"r{n}" for n in range(16)]
    choices = [
        {"name": f"s{n}", "deviceClassName": "cards", "count": 1 + n % 2, "allocationMode": "ExactCount"}
        for n in range(8)
    ]
    devices = {
        "requests": [{"name": name, "firstAvailable": choices} for name in names],
        "constraints": [{"requests": names, "matchAttribute": "cards.example.com/nothing"}],
    }
    for n in range(60):
        await w.post("resourceclaims", {"metadata": {"name": f"c{n}"}, "spec": {"devices": devices}}, _CLAIMS)
        spec = pod(resourceClaims=[{"name": "c", "resourceClaimName": f"c{n}"}])
        await w.post("pods", {"metadata": {"name": f"p{n}"}, "spec": spec})
    await asyncio.sleep(3)


@attack("2,000 claims of 200 pods, from one template, that no node has devices for")
async def templates(w: World) -> None:
    request = {"name": "a", "exactly": {"deviceClassName": "cards", "allocationMode": "ExactCount", "count": 9}}
    body = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    await w.post("resourceclaimtemplates", body, _CLAIMS)
    spec = pod(resourceClaims=[{"name": f"c{n}", "resourceClaimTemplateName": "t"} for n in range(10)])
    await _pods(w, [spec] * 200, {})


@attack("1,000 jobs whose pods start 100 times as often as they may by forged run times and progress")
async def forged(w: World) -> None:
    for n in range(1_000):
        notes = {
            "unisono.io/run-seconds": "0.01",
            "unisono.io/progress": f"{n}/1",
            "unisono.io/min-run-time": "9000h",
            "unisono.io/checkpoint-time": "9000h",
        }
        spec = vcjob(1, policies=[{"event": "TaskCompleted", "action": "RestartJob"}], maxRetry=1_000)
        spec["tasks"][0]["template"]["metadata"] = {"annotations": notes}
        await job(w, f"job-{n % 40}-{n}", spec, annotations=notes)
    await asyncio.sleep(3)
