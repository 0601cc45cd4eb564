"""Attacks by writes without end: patches, deletions, evictions, versions, owners, finalizers, reviews."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from benchmarks.tenant.scheduling import job, pod, vcjob
from benchmarks.tenant.table import attack
from benchmarks.tenant.world import APPLY, MERGE, VICTIM, Body, World

_BATCH, _GROUPS = "batch.volcano.sh/v1alpha1", "scheduling.volcano.sh/v1beta1"


def _for_ever(w: World, count: int, one: Callable[[int, int], Awaitable[object]]) -> None:
    """``count`` loops that go on until the bystander has been looked at."""

    async def loop(number: int) -> None:
        turn = 0
        while True:
            await one(number, turn)
            turn += 1

    for number in range(count):
        w.hold(loop(number))


@attack("patches of own pods and jobs without a pause, of all that the scheduler looks at")
async def patches(w: World) -> None:
    for n in range(16):
        await w.post("pods", {"metadata": {"name": f"p{n}"}, "spec": pod()})
        await job(w, f"j{n}", vcjob(4, pod(nodeSelector={"nowhere": "x"})))

    async def one(number: int, turn: int) -> None:
        value = f"v{turn}"
        meta = {"labels": {f"k{turn % 50}": value}, "annotations": {"unisono.io/run-seconds": str(turn), "x": value}}
        await w.ask("PATCH", w.path("pods", f"p{number}"), {"metadata": meta}, MERGE)
        least = {"metadata": meta, "spec": {"minAvailable": 1 + turn % 4, "priorityClassName": ""}}
        await w.ask("PATCH", w.path("jobs", f"j{number}", api=_BATCH), least, MERGE)

    _for_ever(w, 16, one)
    await asyncio.sleep(5)


@attack("jobs that are created, scaled and deleted without a pause")
async def churn(w: World) -> None:
    async def one(number: int, turn: int) -> None:
        name = f"j{number}-{turn}"
        await job(w, name, vcjob(20))
        tasks = [{"name": "a", "replicas": 40, "template": {"spec": pod()}}]
        await w.ask("PATCH", w.path("jobs", name, api=_BATCH), {"spec": {"tasks": tasks, "minAvailable": 1}}, MERGE)
        how = ("Foreground", "Background", "Orphan")[turn % 3]
        await w.ask("DELETE", w.path("jobs", name, api=_BATCH), {"propagationPolicy": how, "kind": "DeleteOptions"})

    _for_ever(w, 8, one)
    await asyncio.sleep(5)


@attack("evictions and deletions of collections without a pause, with preconditions and dry runs")
async def evictions(w: World) -> None:
    deployment = {"replicas": 60, "selector": {"matchLabels": {"a": "b"}}}
    deployment["template"] = {"metadata": {"labels": {"a": "b"}}, "spec": pod()}
    await w.post("deployments", {"metadata": {"name": "d"}, "spec": deployment}, "apps/v1")
    await asyncio.sleep(2)

    async def one(number: int, turn: int) -> None:
        if number == 0:
            await w.ask("DELETE", w.path("pods") + "?labelSelector=a=b&gracePeriodSeconds=0")
            return
        _, answer = await w.ask("GET", w.path("pods") + f"?limit={number * 5}")
        for item in json.loads(answer).get("items", []):
            name = item["metadata"]["name"]
            options = {"preconditions": {"uid": "x"}} if turn % 3 else {"gracePeriodSeconds": 0}
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            query = "?dryRun=All" if turn % 2 else ""
            await w.ask("POST", w.path("pods", f"{name}/eviction{query}"), {**eviction, "deleteOptions": options})

    _for_ever(w, 6, one)
    await asyncio.sleep(5)


@attack("versions of objects that never were: lists, watches and writes")
async def versions(w: World) -> None:
    await w.post("configmaps", {"metadata": {"name": "m"}, "data": {"a": "b"}})
    odd = ("0", "1", "-1", "18446744073709551615", "9" * 30, "x", "0x10", " 5", "", "1e9")
    for version in odd:
        for query in (f"resourceVersion={version}", f"watch=1&timeoutSeconds=1&resourceVersion={version}"):
            for match in (
                "",
                "&resourceVersionMatch=Exact",
                "&resourceVersionMatch=NotOlderThan",
                "&sendInitialEvents=1",
            ):
                w.hold(_quiet(w, w.path("configmaps") + f"?{query}{match}"))
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "resourceVersion": version}}
        await w.ask("PUT", w.path("configmaps", "m"), body)
        await w.ask("DELETE", w.path("configmaps", "m"), {"preconditions": {"resourceVersion": version}})
    future = w.path("configmaps") + "?resourceVersion=99999999&resourceVersionMatch=NotOlderThan"
    for _ in range(300):
        w.hold(_quiet(w, future))
        w.hold(_quiet(w, w.path("pods") + "?watch=1&resourceVersion=99999999"))
    await asyncio.sleep(3)


async def _quiet(w: World, path: str) -> None:
    await w.ask("GET", path)


@attack("owners that are not the user's: gangs, jobs, nodes, queues and namespaces of others, then deleted")
async def foreign_owners(w: World) -> None:
    owners: list[Body] = []
    known = (
        ("Pod", "v1", w.path("pods", "keeper", VICTIM)),
        ("Node", "v1", "/api/v1/nodes/quiet-0"),
        ("Queue", _GROUPS, f"/apis/{_GROUPS}/queues/default"),
        ("Namespace", "v1", f"/api/v1/namespaces/{VICTIM}"),
    )
    for kind, api, path in known:
        _, _, answer = await w.admin.request("GET", path)
        meta = json.loads(answer)["metadata"]
        owners.append({"kind": kind, "apiVersion": api, "name": meta.get("name", "x"), "uid": meta.get("uid", "x")})
    for n, owner in enumerate(owners):
        for m, more in enumerate(({}, {"controller": True}, {"blockOwnerDeletion": True})):
            meta = {"name": f"o{n}-{m}", "ownerReferences": [{**owner, **more}], "finalizers": ["example.com/never"]}
            await w.post("configmaps", {"metadata": meta})
            await w.post("pods", {"metadata": meta, "spec": pod()})
            await job(w, f"o{n}-{m}", vcjob(2), ownerReferences=[{**owner, **more}])
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
    await w.ask("DELETE", w.path("pods"), options)
    await asyncio.sleep(3)
    for kind, _, path in known:
        status, _, answer = await w.admin.request("GET", path)
        if (status != 200 and kind != "Pod") or "deletionTimestamp" in json.loads(answer).get("metadata", {}):
            w.fault(f"the {kind} of another user is going: {status}")


@attack("finalizers that never go on jobs, deployments, claims and services, all deleted in the foreground")
async def finalizers(w: World) -> None:
    never = {"finalizers": ["example.com/never", "foregroundDeletion", "orphan"]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()}
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
    for n in range(60):
        await job(w, f"j{n}", vcjob(4), **never)
        spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        await w.post("deployments", {"metadata": {"name": f"d{n}", **never}, "spec": spec}, "apps/v1")
        await w.post("services", {"metadata": {"name": f"s{n}", **never}, "spec": {"ports": [{"port": 1}]}})
    await asyncio.sleep(2)
    for plural, api in (("jobs", _BATCH), ("deployments", "apps/v1"), ("services", "")):
        await w.ask("DELETE", w.path(plural, api=api), options)
    await asyncio.sleep(3)
    for plural, api in (("jobs", _BATCH), ("deployments", "apps/v1"), ("services", "")):
        for n in range(60):
            w.hold(_release(w, w.path(plural, f"{plural[0]}{n}", api=api)))


async def _release(w: World, path: str) -> None:
    await asyncio.sleep(15)
    await w.ask("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)


@attack("jobs applied by 500 managers that force each other's fields")
async def managers(w: World) -> None:
    await job(w, "j", vcjob(1, pod(schedulingGates=[{"name": "x/y"}])))

    async def one(number: int, turn: int) -> None:
        notes = {f"k{n}": f"{number}-{turn}" for n in range(300)}
        body = {"apiVersion": _BATCH, "kind": "Job", "metadata": {"name": "j", "annotations": notes}}
        query = f"?fieldManager=m{number}-{turn % 32}&force=true"
        await w.ask("PATCH", w.path("jobs", "j", api=_BATCH) + query, body, APPLY)

    _for_ever(w, 16, one)
    await asyncio.sleep(8)


@attack("reviews of rights and tables of everything, 90 at a time without a pause")
async def reviews(w: World) -> None:
    await w.many(w.post("pods", {"metadata": {"name": f"p{n}"}, "spec": pod()}) for n in range(200))
    api = "/apis/authorization.k8s.io/v1"

    async def one(number: int, turn: int) -> None:
        if number % 3 == 0:
            body = {"kind": "SelfSubjectRulesReview", "spec": {"namespace": f"n{turn}"}}
            await w.ask("POST", f"{api}/selfsubjectrulesreviews", body)
        elif number % 3 == 1:
            rights = {"resourceAttributes": {"resource": f"r{turn}", "verb": "x" * 1_000, "namespace": w.namespace}}
            await w.ask("POST", f"{api}/selfsubjectaccessreviews", {"kind": "SelfSubjectAccessReview", "spec": rights})
        else:
            await w.ask("GET", w.path("pods"))

    _for_ever(w, 90, one)
    await asyncio.sleep(5)


@attack("500 watches by long selectors, beside pods whose labels change all the time")
async def watched(w: World) -> None:
    await w.many(w.post("pods", {"metadata": {"name": f"p{n}"}, "spec": pod()}) for n in range(32))
    selector = ",".join(f"k{n}+notin+(a,b,c)" for n in range(100))
    await w.unread(w.path("pods") + f"?watch=1&labelSelector={selector}", 500)

    async def one(number: int, turn: int) -> None:
        body = {"metadata": {"labels": {f"k{turn % 100}": ("a", "d")[turn % 2]}}}
        await w.ask("PATCH", w.path("pods", f"p{number}"), body, MERGE)

    _for_ever(w, 16, one)
    await asyncio.sleep(5)
