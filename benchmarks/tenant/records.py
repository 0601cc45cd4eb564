"""Attacks on what is counted: shares of queues, users, the history, and those who read it."""

from __future__ import annotations

import asyncio
import json

from benchmarks.tenant.scheduling import job, pod, vcjob
from benchmarks.tenant.table import attack
from benchmarks.tenant.world import VICTIM, World

_BATCH = "batch.volcano.sh/v1alpha1"
_GROUPS = "scheduling.volcano.sh/v1beta1"
_USER = "unisono.io/user"
_HUGE = {"requests": {"cpu": "72057594037927", "memory": "64Pi"}}


@attack("pods as large as can be on nodes that they name themselves, there or not")
async def self_placed(w: World) -> None:
    for number in range(300):
        spec = pod() | {"nodeName": ("nowhere", "quiet-0", "node-1")[number % 3]}
        spec["containers"][0]["resources"] = _HUGE if number % 2 else {"requests": {"cpu": "2k"}}
        await w.post("pods", {"metadata": {"name": f"p{number}"}, "spec": spec})
    spec = pod() | {"nodeName": "nowhere"}
    spec["containers"][0]["resources"] = _HUGE
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    deployment = {"replicas": 200, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await w.post("deployments", {"metadata": {"name": "d"}, "spec": deployment}, "apps/v1")
    await asyncio.sleep(3)


@attack("a stream of pods for full nodes that they name themselves")
async def stream(w: World) -> None:
    async def one(number: int) -> None:
        for turn in range(200):
            spec = pod("64") | {"nodeName": f"node-{number}"}
            await w.post("pods", {"metadata": {"name": f"p{number}-{turn}"}, "spec": spec})

    for number in range(8):
        w.hold(one(number))
    await asyncio.sleep(3)


@attack("jobs in another user's name: annotations, templates, CronJobs, RayClusters")
async def names(w: World) -> None:
    theirs = f"system:serviceaccount:{VICTIM}:bystander"
    note = {_USER: theirs}
    await job(w, "j", vcjob(), annotations=note)
    spec = vcjob()
    spec["tasks"][0]["template"]["metadata"] = {"annotations": note}
    await job(w, "t", spec)
    cron = {"schedule": "* * * * *", "jobTemplate": {"metadata": {"annotations": note}, "spec": vcjob()}}
    await w.post("cronjobs", {"metadata": {"name": "c", "annotations": note}, "spec": cron}, _BATCH)
    ray = {"headGroupSpec": {"template": {"spec": pod()}}}
    body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r", "annotations": note}}
    await w.post("rayclusters", {**body, "spec": ray}, "ray.io/v1")
    await w.ask(
        "PATCH", w.path("jobs", "j", api=_BATCH), {"metadata": {"annotations": note}}, "application/merge-patch+json"
    )
    await asyncio.sleep(61)
    for plural, api in (("jobs", _BATCH), ("podgroups", _GROUPS)):
        _, answer = await w.ask("GET", w.path(plural, api=api))
        for item in json.loads(answer)["items"]:
            if (item["metadata"].get("annotations") or {}).get(_USER) == theirs:
                w.fault(f"{plural} {item['metadata']['name']} counts for the bystander")


@attack("300 questions about the past at a time")
async def reports(w: World) -> None:
    for number in range(300):
        await job(w, f"j{number}", vcjob())
    path = "/unisono/v1/history/report?by=job&from=0"
    await w.many((w.ask("GET", path) for _ in range(300)), 90)


@attack("annotations at their limits: times, numbers, nested and long texts on pods, jobs and templates")
async def annotations(w: World) -> None:
    digits, nested = "9" * 5_000, "[" * 5_000
    values = (digits, f"-{digits}", "nan", "1e308", f"{digits}h", "0", "9999-12-31T23:59:59Z", nested, "{", "\u0000")
    names = (
        *("run-seconds", "exit-code", "min-run-time", "checkpoint-time", "progress", "gpu-cards", "verdict"),
        *("gang-parts", "max-replicas", "elastic", "elastic-cool-down", "gang", "member-reasons", "scale-down"),
        *("decayed-use", "cluster", "dispatch", "restart-policy", "working-directory"),
    )
    others = (
        *("volcano.sh/task-priority", "volcano.sh/jdb-min-available", "volcano.sh/cooldown-time"),
        *("volcano.sh/revocable-zone", "volcano.sh/sla-waiting-time", "volcano.sh/numa-topology-policy"),
        *("volcano.sh/topology-decision", "volcano.sh/network-topology-highest-tier", "volcano.sh/vgpu-mode"),
        *(
            "scheduling.volcano.sh/group-min-member",
            "volcano.sh/qos-level",
            "volcano.sh/resource-strategy-scoring-type",
        ),
    )
    for at, key in enumerate([*(f"unisono.io/{name}" for name in names), *others]):
        for number, value in enumerate(values):
            notes = {key: value}
            await w.post("pods", {"metadata": {"name": f"p{at}-{number}", "annotations": notes}, "spec": pod()})
            spec = vcjob()
            spec["tasks"][0]["template"]["metadata"] = {"annotations": notes}
            await job(w, f"j{at}-{number}", spec, annotations=notes)
    await asyncio.sleep(3)


@attack("numbers beyond all limits in queries, bodies and headers")
async def numbers(w: World) -> None:
    digits = "9" * 5_000
    queries = (
        *(f"limit={digits}", f"timeoutSeconds={digits}", f"resourceVersion={digits}", "limit=%C2%B2", "limit=1_0"),
        *("continue=%7B%7D", f"continue={digits}", "resourceVersion=-5", "timeoutSeconds=nan", "watch=1&limit=-1"),
    )
    for query in queries:
        await w.ask("GET", f"{w.path('configmaps')}?{query}")
        await w.ask("GET", f"{w.path('pods', 'x/log')}?{query.replace('limit', 'tailLines')}")
    bodies = (
        *(b'"\\ud800"', b'"\\u0000"', b"1e400", digits.encode(), b"-0.0", b"[" * 300 + b"]" * 300, b'"\xed\xa0\x80"'),
    )
    for number, value in enumerate(bodies):
        head = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n%d"},"data":{"a":' % number
        await w.ask("POST", w.path("configmaps"), head + value + b"}}")
        generation = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p%d","generation":' % number
        await w.ask("POST", w.path("pods"), generation + value + b"}}")
    await w.many(w.ask("GET", "/apis/" + "x" * 30_000 + str(number)) for number in range(100))
