"""Attacks on the scheduler and the controllers: others' places, queues and turns."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from benchmarks.tenant.table import attack
from benchmarks.tenant.world import MERGE, VICTIM, Body, World

_BATCH, _FLOW = "batch.volcano.sh/v1alpha1", "flow.volcano.sh/v1alpha1"
_EVERYWHERE: Body = {"labelSelector": {}, "namespaceSelector": {}}


def pod(cpu: str = "10m", **more: Any) -> Body:
    """A pod of the scheduler's."""
    wanted = {"requests": {"cpu": cpu, "memory": "1Mi"}}
    containers = [{"name": "c", "image": "x", "resources": wanted}]
    return {"schedulerName": "volcano", "terminationGracePeriodSeconds": 0, "containers": containers, **more}


def vcjob(replicas: int = 1, spec: Body | None = None, **more: Any) -> Body:
    """The spec of a Job of one task."""
    tasks = [{"name": "a", "replicas": replicas, "template": {"spec": spec or pod()}}]
    return {"minAvailable": replicas, "schedulerName": "volcano", "tasks": tasks, **more}


async def job(w: World, name: str, spec: Body, **meta: Any) -> int:
    return await w.post("jobs", {"metadata": {"name": name, **meta}, "spec": spec}, _BATCH)


_ANYWHERE = [{"operator": "Exists"}]


@attack("pods that keep the pods of all namespaces away from all nodes (anti-affinity)")
async def keep_away(w: World) -> None:
    for number, key in enumerate(("kubernetes.io/hostname", "kubernetes.io/hostname", "for")):
        term = {**_EVERYWHERE, "topologyKey": key}
        away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        spec = pod(affinity=away, tolerations=_ANYWHERE, nodeSelector={"for": "bystander"})
        await w.post("pods", {"metadata": {"name": f"p{number}"}, "spec": spec})
        await job(w, f"j{number}", vcjob(1, spec))
    await asyncio.sleep(3)


@attack("the same for others' pods by names of namespaces")
async def keep_named_away(w: World) -> None:
    term = {"labelSelector": {}, "namespaces": [VICTIM], "topologyKey": "for"}
    spec = pod(
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        tolerations=_ANYWHERE,
        nodeSelector={"for": "bystander"},
    )
    await w.post("pods", {"metadata": {"name": "p"}, "spec": spec})
    await asyncio.sleep(3)


@attack("1,500 pods with anti-affinity to the pods of all namespaces")
async def selectors(w: World) -> None:
    def one(n: int) -> Body:
        term = {
            "labelSelector": {"matchExpressions": [{"key": f"k{n}", "operator": "NotIn", "values": ["x"]}]},
            "namespaceSelector": {},
            "topologyKey": "kubernetes.io/hostname",
        }
        spread = [{"weight": 100, "podAffinityTerm": term}]
        return pod(affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": spread}})

    await w.many(w.post("pods", {"metadata": {"name": f"p{n}"}, "spec": one(n)}) for n in range(1_500))
    await asyncio.sleep(3)


@attack("pods of 300 affinity terms with 300 values each")
async def wide_terms(w: World) -> None:
    terms = [
        {
            "matchExpressions": [
                {"key": f"k{n}", "operator": "NotIn", "values": [f"v{n}-{m}" for m in range(100)]},
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"n{m}" for m in range(100)]},
            ]
        }
        for n in range(100)
    ]
    node = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    await w.many(w.post("pods", {"metadata": {"name": f"p{n}"}, "spec": pod(affinity=node)}) for n in range(100))
    await asyncio.sleep(3)


@attack("300 gangs as large as the cluster that no node can take")
async def promises(w: World) -> None:
    huge = pod("60", nodeSelector={"nowhere": "x"})
    await w.many(job(w, f"j{n}", vcjob(22, huge)) for n in range(300))
    await asyncio.sleep(4)


@attack("gangs that ask for more than the cluster has of everything, in the bystander's queue")
async def too_much(w: World) -> None:
    await w.many(job(w, f"j{n}", vcjob(5_000, pod("64"))) for n in range(20))
    await asyncio.sleep(4)


@attack("pods that name the bystander's nodes themselves and ask for more than they have")
async def pinned(w: World) -> None:
    for number in range(100):
        spec = {**pod("65"), "nodeName": f"quiet-{number % 2}", "tolerations": _ANYWHERE}
        await w.post("pods", {"metadata": {"name": f"p{number}"}, "spec": spec})
        other = {**spec, "schedulerName": "example.com/none"}
        await w.post("pods", {"metadata": {"name": f"o{number}"}, "spec": other})
    await asyncio.sleep(3)


@attack("pods on all nodes whose deletion a finalizer holds for ever")
async def never_gone(w: World) -> None:
    await _fill_and_delete(w, {"finalizers": ["example.com/never"]}, {})


@attack("pods on all nodes that take ten years to end")
async def slow_end(w: World) -> None:
    await _fill_and_delete(w, {}, {"terminationGracePeriodSeconds": 315_360_000})


async def _fill_and_delete(w: World, metadata: dict[str, Any], more: dict[str, Any]) -> None:
    """A pod that fills each node of the bystander, deleted as soon as it runs."""
    spec = pod("60", tolerations=_ANYWHERE, nodeSelector={"for": "bystander"}) | more
    for number in range(2):
        await w.post("pods", {"metadata": {"name": f"p{number}", **metadata}, "spec": spec})
    await asyncio.sleep(4)
    for number in range(2):
        await w.ask("DELETE", w.path("pods", f"p{number}"))
    await asyncio.sleep(2)


@attack("2,000 pods behind scheduling gates, in gangs of 10")
async def gates(w: World) -> None:
    gated = pod(schedulingGates=[{"name": "example.com/never"}])
    await w.many(job(w, f"j{n}", vcjob(10, gated)) for n in range(200))
    await asyncio.sleep(3)


@attack("100 CronJobs that start a job each minute, by every time zone")
async def crons(w: World) -> None:
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": vcjob(5)}, "concurrencyPolicy": "Allow"}
    await w.many(w.post("cronjobs", {"metadata": {"name": f"c{n}"}, "spec": spec}, _BATCH) for n in range(100))
    every = {**spec, "schedule": "@every 1s"}
    await w.many(w.post("cronjobs", {"metadata": {"name": f"e{n}"}, "spec": every}, _BATCH) for n in range(100))
    await asyncio.sleep(5)


@attack("200 autoscalers that flap between 1 and 2^31 - 1")
async def flapping(w: World) -> None:
    deployment = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}}
    deployment["template"] = {"metadata": {"labels": {"a": "b"}}, "spec": pod()}
    behaviour = {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Percent", "value": 2**31 - 1, "periodSeconds": 1}],
    }
    for n in range(50):
        await w.post("deployments", {"metadata": {"name": f"d{n}"}, "spec": deployment}, "apps/v1")
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1m"}}}

    async def one(n: int) -> None:
        spec = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"d{n % 50}"},
            "minReplicas": 1 if n % 2 else 400,
            "maxReplicas": 2**31 - 1 if n % 2 else 400,
            "metrics": [metric],
            "behavior": {"scaleUp": behaviour, "scaleDown": behaviour},
        }
        await w.post("horizontalpodautoscalers", {"metadata": {"name": f"h{n}"}, "spec": spec}, "autoscaling/v2")

    await w.many(one(n) for n in range(200))
    await asyncio.sleep(10)


@attack("JobFlows of 500 templates in a circle, and of 20,000 edges")
async def flows(w: World) -> None:
    for n in range(500):
        await w.post("jobtemplates", {"metadata": {"name": f"t{n}"}, "spec": vcjob()}, _FLOW)
    ring = [{"name": f"t{n}", "dependsOn": {"targets": [f"t{(n + 1) % 500}"]}} for n in range(500)]
    dense = [{"name": f"t{n}", "dependsOn": {"targets": [f"t{m}" for m in range(n)]}} for n in range(200)]
    for name, each in (("ring", ring), ("dense", dense), ("first", [*dense[:1], *ring[1:-1]])):
        await w.post("jobflows", {"metadata": {"name": name}, "spec": {"flows": each}}, _FLOW)
    await asyncio.sleep(3)


@attack("HyperJobs of 1,000 jobs")
async def hyper(w: World) -> None:
    jobs = [{"name": f"a{n}", "replicas": 100, "templateSpec": vcjob(10)} for n in range(100)]
    for n in range(5):
        spec = {"replicatedJobs": jobs, "minAvailable": 1}
        await w.post("hyperjobs", {"metadata": {"name": f"h{n}"}, "spec": spec}, "training.volcano.sh/v1alpha1")
    await asyncio.sleep(5)


@attack("jobs that fail at once and start again for ever")
async def restarting(w: World) -> None:
    policies = [{"event": "*", "action": "RestartJob"}]
    spec = vcjob(5, policies=policies, maxRetry=2**31 - 1)
    notes = {"unisono.io/run-seconds": "0", "unisono.io/exit-code": "1"}
    spec["tasks"][0]["template"]["metadata"] = {"annotations": notes}
    await w.many(job(w, f"j{n}", spec) for n in range(100))
    await asyncio.sleep(5)


@attack("5,000 owner references that form circles")
async def owners(w: World) -> None:
    found: list[str] = []
    for n in range(50):
        await w.post("configmaps", {"metadata": {"name": f"o{n}"}})
        answer = json.loads((await w.ask("GET", w.path("configmaps", f"o{n}")))[1])
        found.append(answer["metadata"]["uid"])
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": f"o{n}", "uid": uid, "blockOwnerDeletion": True}
        for n, uid in enumerate(found)
    ]
    patch = {"metadata": {"ownerReferences": references, "finalizers": ["example.com/never"]}}
    await w.many(w.ask("PATCH", w.path("configmaps", f"o{n}"), patch, MERGE) for n in range(50))
    delete = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
    await w.many(w.ask("DELETE", w.path("configmaps", f"o{n}"), delete) for n in range(50))
    unknown = [{**references[0], "name": f"u{n}", "uid": f"u{n}"} for n in range(5_000)]
    await w.post("configmaps", {"metadata": {"name": "many", "ownerReferences": unknown}})
    await asyncio.sleep(3)


@attack("Services and ports made and removed 500 times")
async def services(w: World) -> None:
    ports = [{"name": f"p{n}", "port": n + 1} for n in range(200)]

    async def one(n: int) -> None:
        body = {"metadata": {"name": f"s{n % 50}"}, "spec": {"selector": {"a": "b"}, "ports": ports}}
        await w.post("services", body)
        await w.ask("DELETE", w.path("services", f"s{n % 50}"))

    await w.many(one(n) for n in range(500))


@attack("claims for devices that stay reserved after their pods, by finalizers")
async def claims(w: World) -> None:
    request = {"requests": [{"name": "a", "exactly": {"deviceClassName": "cards", "allocationMode": "All"}}]}
    body = {"metadata": {"name": "c", "finalizers": ["example.com/never"]}, "spec": {"devices": request}}
    api = "resource.k8s.io/v1"
    await w.post("resourceclaims", body, api)
    spec = pod(resourceClaims=[{"name": "c", "resourceClaimName": "c"}], tolerations=_ANYWHERE)
    await w.post("pods", {"metadata": {"name": "p"}, "spec": spec})
    await asyncio.sleep(3)
    await w.ask("DELETE", w.path("pods", "p"))
    await w.ask("DELETE", w.path("resourceclaims", "c", api=api))
    await asyncio.sleep(3)


@attack("pods that say that they are of the bystander's gangs, and decoys of its names")
async def decoys(w: World) -> None:
    for n in range(30):
        notes = {"scheduling.k8s.io/group-name": f"../{VICTIM}/job-{n}", "volcano.sh/job-name": f"job-{n}"}
        body = {"metadata": {"name": f"job-{n}-a-0", "annotations": notes}, "spec": pod()}
        await w.post("pods", body)
        body["metadata"] = {"name": f"d{n}", "annotations": {**notes, "scheduling.k8s.io/group-name": f"job-{n}"}}
        await w.post("pods", body)
        await job(w, f"job-{n}", vcjob(2, pod(nodeSelector={"nowhere": "x"})))
    group = {"metadata": {"name": "job-1"}, "spec": {"minMember": 2}}
    if await w.post("podgroups", group, "scheduling.volcano.sh/v1beta1") < 300:
        w.fault("a PodGroup could be made")
    await asyncio.sleep(2)


@attack("expressions, patterns and exit codes in jobs' policies")
async def policies(w: World) -> None:
    odd = [{"event": "PodFailed", "action": "RestartJob", "timeout": "9" * 10_000 + "h"}]
    await job(w, "long", vcjob(policies=odd))
    many = [{"exitCode": n + 1, "action": "RestartJob"} for n in range(5_000)]
    await job(w, "many", vcjob(policies=many))
    await job(w, "events", vcjob(policies=[{"events": ["PodFailed"] * 50_000, "action": "AbortJob"}]))
    selector = {"cel": {"expression": "[1,2,3,4,5,6,7,8,9].all(a, " * 8 + "true" + ")" * 8}}
    request = {"name": "a", "exactly": {"deviceClassName": "cards", "selectors": [selector] * 32}}
    for n in range(20):
        body = {"metadata": {"name": f"c{n}"}, "spec": {"devices": {"requests": [request]}}}
        await w.post("resourceclaims", body, "resource.k8s.io/v1")
        spec = pod(resourceClaims=[{"name": "c", "resourceClaimName": f"c{n}"}])
        await w.post("pods", {"metadata": {"name": f"p{n}"}, "spec": spec})
    await asyncio.sleep(3)


@attack("label selectors of 2,000 requirements in lists and watches")
async def list_selectors(w: World) -> None:
    await w.many(w.post("configmaps", config(n)) for n in range(500))
    selector = ",".join(f"k{n}+notin+(a,b,c)" for n in range(400))
    await w.many(w.ask("GET", w.path("configmaps") + f"?labelSelector={selector}") for _ in range(300))


def config(n: int) -> Body:
    """A ConfigMap with 200 labels."""
    return {"metadata": {"name": f"m{n}", "labels": {f"l{m}": "v" for m in range(200)}}}


@attack("budgets that forbid all evictions, and evictions of everything")
async def budgets(w: World) -> None:
    spec = {"maxUnavailable": 0, "selector": {}}
    await w.many(
        w.post("poddisruptionbudgets", {"metadata": {"name": f"b{n}"}, "spec": spec}, "policy/v1") for n in range(300)
    )
    await w.many(w.post("pods", {"metadata": {"name": f"p{n}"}, "spec": pod()}) for n in range(100))
    for n in range(100):
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": f"p{n}"}}
        await w.ask("POST", w.path("pods", f"p{n}/eviction"), eviction)
    status, _ = await w.ask(
        "POST", w.path("pods", "keeper/eviction", VICTIM), {"kind": "Eviction", "metadata": {"name": "keeper"}}
    )
    if status < 300:
        w.fault("a pod of the bystander was evicted")
