"""Attacks on controllers: triggers with hostile servers, trees of workloads, metrics of autoscalers."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.tenant.scheduling import pod, vcjob
from benchmarks.tenant.table import attack
from benchmarks.tenant.world import Body, World

_LARGE = 2**31 - 1
_ANSWERS: tuple[bytes, ...] = (
    b'{"status":"success","data":{"resultType":"vector","result":[{"value":[0,"%s"]}]}}' % (b"9" * 100_000),
    b'{"status":"success","data":{"resultType":"vector","result":[{"value":[0,"NaN"]}]}}',
    b'{"status":"success","data":{"resultType":"scalar","result":[1e999,"+Inf"]}}',
    b'{"status":"success","data":' + b"[" * 500_000,
    b'{"status":"success","data":{"resultType":"vector","result":['
    + b",".join([b'{"value":[0,"1"]}'] * 30_000)
    + b"]}}",
    b'{"status":"error","errorType":"\\u001b[2J","error":"' + b"\\u0000" * 100_000 + b'"}',
    b"\xff\xfe" * 400_000,
)


async def _hostile(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, turn: list[int]) -> None:
    """A server of metrics that answers something else each time: odd numbers, no end, a byte a second, itself."""
    try:
        await reader.readuntil(b"\r\n\r\n")
        turn[0] += 1
        number = turn[0] % (len(_ANSWERS) + 3)
        ok = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        if number < len(_ANSWERS):
            body = _ANSWERS[number]
            writer.write(ok + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
        elif number == len(_ANSWERS):
            writer.write(ok + b"Content-Length: 100\r\n\r\n{")
            await asyncio.sleep(60)
        elif number == len(_ANSWERS) + 1:
            writer.write(ok + b"Transfer-Encoding: chunked\r\n\r\n")
            while True:
                writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
                await writer.drain()
        else:
            writer.write(b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1/api\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.transport.abort()


@attack("300 ScaledObjects and autoscalers that ask a server which answers odd numbers, without end, or not at all")
async def triggers(w: World) -> None:
    turn = [0]
    server = await asyncio.start_server(lambda r, s: _hostile(r, s, turn), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    deployment: Body = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}}
    deployment["template"] = {"metadata": {"labels": {"a": "b"}}, "spec": pod()}
    for n in range(50):
        await w.post("deployments", {"metadata": {"name": f"d{n}"}, "spec": deployment}, "apps/v1")
    address = f"http://127.0.0.1:{port}"

    async def one(n: int) -> None:
        query = {"serverAddress": address, "query": "x" * 1_000, "threshold": "0.0000001"}
        redis = {"address": f"127.0.0.1:{port}", "listName": "x"}
        each = [{"type": "prometheus", "metadata": query}, {"type": "redis", "metadata": redis}]
        spec = {"scaleTargetRef": {"name": f"d{n % 50}"}, "pollingInterval": 1, "maxReplicaCount": 3, "triggers": each}
        body = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": f"s{n}"}, "spec": spec}
        await w.post("scaledobjects", body, "keda.sh/v1alpha1")

    await w.many(one(n) for n in range(200))
    prefix = "metric-config.external.m.prometheus"
    notes = {f"{prefix}/prometheus-server": address, f"{prefix}/query": "x"}
    metric = {"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1n"}}}
    for n in range(100):
        spec = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"d{n % 50}"},
            "maxReplicas": 3,
            "metrics": [metric] * 10,
        }
        body = {"metadata": {"name": f"h{n}", "annotations": notes}, "spec": spec}
        await w.post("horizontalpodautoscalers", body, "autoscaling/v2")
    w.hold(server.serve_forever())
    await asyncio.sleep(10)


def _kind(api: str, kind: str, name: str, spec: Body) -> Body:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


@attack("Ray clusters, JobSets, TrainJobs and Knative services as large, deep and circular as they can be")
async def trees(w: World) -> None:
    template: Body = {"template": {"spec": pod()}}
    ray = "ray.io/v1"
    groups = [
        {"groupName": f"g{n}", "replicas": _LARGE, "minReplicas": 0, "maxReplicas": _LARGE, **template}
        for n in range(300)
    ]
    small = [{"groupName": f"g{n}", "replicas": 20, "minReplicas": 0, "maxReplicas": 50, **template} for n in range(60)]
    for number, each in enumerate((groups, small)):
        spec = {"headGroupSpec": template, "workerGroupSpecs": each, "enableInTreeAutoscaling": True}
        for n in range(5):
            await w.post("rayclusters", _kind(ray, "RayCluster", f"r{number}-{n}", spec), ray)
            job = {"entrypoint": "x" * 10_000, "rayClusterSpec": spec, "backoffLimit": _LARGE}
            await w.post("rayjobs", _kind(ray, "RayJob", f"j{number}-{n}", job), ray)
    jobset = "jobset.x-k8s.io/v1alpha2"
    child = {"spec": {"parallelism": 10, "completions": 10, "backoffLimit": _LARGE, **template}}
    for n in range(5):
        ring = [
            {
                "name": f"a{m}",
                "replicas": 50,
                "template": child,
                "dependsOn": [{"name": f"a{(m + 1) % 40}", "status": "Ready"}],
            }
            for m in range(40)
        ]
        free = [{"name": f"b{m}", "replicas": 50, "template": child} for m in range(40)]
        for name, each in ((f"ring{n}", ring), (f"free{n}", free)):
            spec = {"replicatedJobs": each, "failurePolicy": {"maxRestarts": _LARGE}}
            await w.post("jobsets", _kind(jobset, "JobSet", name, spec), jobset)
    trainer, knative = "trainer.kubeflow.org/v1alpha1", "serving.knative.dev/v1"
    for n in range(30):
        reference = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": f"t{n}"}
        spec = {"runtimeRef": reference, "trainer": {"numNodes": _LARGE if n % 2 else 500}}
        await w.post("trainjobs", _kind(trainer, "TrainJob", f"t{n}", spec), trainer)
        service: dict[str, Any] = {"metadata": {"annotations": {"autoscaling.knative.dev/min-scale": str(_LARGE)}}}
        service["spec"] = {"containers": [{"image": "x"}]}
        await w.post("services", _kind(knative, "Service", f"k{n}", {"template": service}), knative)
    kubeflow = "kubeflow.org/v1"
    for n in range(10):
        worker = {"replicas": 2_000, "restartPolicy": "OnFailure", **template}
        spec = {"pytorchReplicaSpecs": {"Worker": worker}, "runPolicy": {"backoffLimit": _LARGE}}
        await w.post("pytorchjobs", _kind(kubeflow, "PyTorchJob", f"p{n}", spec), kubeflow)
    await asyncio.sleep(8)


@attack("fleets, policies, quotas, definitions and webhooks: kinds of administrators, in their own namespace")
async def administrators(w: World) -> None:
    tries = (
        ("applications", "apps.kurator.dev/v1alpha1", "Application"),
        ("fleets", "fleet.kurator.dev/v1alpha1", "Fleet"),
        ("attachedclusters", "cluster.kurator.dev/v1alpha1", "AttachedCluster"),
        ("propagationpolicies", "policy.karmada.io/v1alpha1", "PropagationPolicy"),
        ("datadependencies", "datadependency.volcano.sh/v1alpha1", "DataSourceClaim"),
        ("limitranges", "v1", "LimitRange"),
        ("roles", "rbac.authorization.k8s.io/v1", "Role"),
    )
    for plural, api, kind in tries:
        if await w.post(plural, _kind(api, kind, "x", {}), "" if api == "v1" else api) < 300:
            w.fault(f"a {kind} of a user")
    cluster_wide = (
        ("apiextensions.k8s.io/v1", "customresourcedefinitions"),
        ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations"),
        ("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies"),
        ("apiregistration.k8s.io/v1", "apiservices"),
        ("storage.k8s.io/v1", "storageclasses"),
        ("resource.k8s.io/v1", "deviceclasses"),
        ("datadependency.volcano.sh/v1alpha1", "datasources"),
    )
    for api, plural in cluster_wide:
        status, _ = await w.ask("POST", f"/apis/{api}/{plural}", {"metadata": {"name": "x.example.com"}})
        if status < 300:
            w.fault(f"{plural} of a user")


@attack("pods whose statuses cannot be kept small: 3,000 readiness gates, 60 containers, 500 conditions")
async def statuses(w: World) -> None:
    def one(n: int) -> Body:
        spec = pod(readinessGates=[{"conditionType": f"example.com/g{m}"} for m in range(3_000)])
        spec["containers"] = [{**spec["containers"][0], "name": f"c{m}", "image": "x" * 500} for m in range(60)]
        return spec

    await w.many(w.post("pods", {"metadata": {"name": f"p{n}"}, "spec": one(n)}) for n in range(60))
    body = {"metadata": {"name": "j"}, "spec": vcjob(200, one(0))}
    await w.post("jobs", body, "batch.volcano.sh/v1alpha1")
    await asyncio.sleep(5)
