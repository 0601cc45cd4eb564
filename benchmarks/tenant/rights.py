"""Attacks on rights: what belongs to others, to administrators, or to the control plane."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace

from benchmarks.tenant.scheduling import job, pod, vcjob
from benchmarks.tenant.table import attack
from benchmarks.tenant.world import MARK, VICTIM, World, shell
from unisono.kube.http import HttpClient
from unisono.kube.transport import Transport

_BUS, _SCHEDULING = "bus.volcano.sh/v1alpha1", "scheduling.volcano.sh/v1beta1"


@attack("reading Secrets of others: by name, list, watch, field selector, subresource and odd paths")
async def paths(w: World) -> None:
    places = [
        w.path("secrets", "mine", VICTIM),
        w.path("secrets", namespace=VICTIM),
        "/api/v1/secrets",
        f"/api/v1/secrets?fieldSelector=metadata.namespace={VICTIM}",
        f"/api/v1/namespaces/{w.namespace}/../{VICTIM}/secrets/mine",
        f"/api/v1/namespaces/{w.namespace}%2F..%2F{VICTIM}/secrets/mine",
        f"/api/v1/namespaces/{w.namespace}/secrets/..%2F..%2F{VICTIM}%2Fsecrets%2Fmine",
        f"/api/v1//namespaces/{VICTIM}/secrets/mine",
        f"/api/v1/watch/namespaces/{VICTIM}/secrets",
        f"/api/v1/namespaces/{VICTIM}/secrets/mine/",
        "/unisono/v1/backup",
        "/metrics",
        f"/api/v1/namespaces/{VICTIM}/pods/keeper/log",
    ]
    for place in places:
        status, answer = await w.ask("GET", place)
        if MARK.encode() in answer or (status < 300 and "metrics" not in place):
            w.fault(f"{place} was answered with {status}")


@attack("impersonation headers")
async def impersonation(w: World) -> None:
    async def as_(headers: Mapping[str, str]) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"GET {w.path('secrets', 'mine', VICTIM)} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer @TOKEN@\r\n"
        reader, writer = await w.raw(f"{head}{lines}Connection: close\r\n\r\n".encode())
        if b" 200 " in (answer := await reader.readline()) or MARK.encode() in await reader.read():
            w.fault(f"{dict(headers)}: {answer!r}")
        writer.transport.abort()

    own = f"system:serviceaccount:{w.namespace}:default"
    for user in ("unisono-admin", f"system:serviceaccount:{VICTIM}:bystander", own, "system:kube-scheduler"):
        await as_({"Impersonate-User": user})
        for group in ("system:masters", f"system:serviceaccounts:{VICTIM}", "system:nodes"):
            await as_({"Impersonate-User": user, "Impersonate-Group": group})
    await as_({"Impersonate-User": own, "Impersonate-Uid": "x", "Impersonate-Extra-Scopes": "a"})
    await as_({"X-Remote-User": "unisono-admin", "X-Remote-Group": "system:masters"})


@attack("tokens of others, and tokens bound to what others own")
async def foreign_tokens(w: World) -> None:
    wanted = {"spec": {"expirationSeconds": 600}}
    for namespace, account in ((VICTIM, "bystander"), (VICTIM, "default"), ("kube-system", "default")):
        status, _ = await w.ask("POST", w.path("serviceaccounts", f"{account}/token", namespace), wanted)
        if status < 300:
            w.fault(f"a token of {namespace}/{account}")
    bound = {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "mine", "uid": "x"}}}
    if (await w.ask("POST", w.path("serviceaccounts", "default/token"), bound))[0] < 300:
        w.fault("a token bound to an object that is not there")
    made = {"metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "bystander"}}}
    await w.post("secrets", {**made, "type": "kubernetes.io/service-account-token"})
    await asyncio.sleep(1)
    _, answer = await w.ask("GET", w.path("secrets", "t"))
    if json.loads(answer).get("data", {}).get("token"):
        w.fault("a Secret got the token of an account that is not of its namespace")


@attack("roles, quotas, namespaces and nodes: everything that takes an administrator")
async def administration(w: World) -> None:
    api = "rbac.authorization.k8s.io/v1"
    binding = {
        "metadata": {"name": "up"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "mallory", "namespace": w.namespace}],
    }
    queue = {"metadata": {"name": "mine"}, "spec": {"weight": 10_000}}
    tries = [
        ("POST", w.path("rolebindings", api=api), binding),
        ("POST", f"/apis/{api}/clusterrolebindings", binding),
        ("POST", w.path("roles", api=api), {"metadata": {"name": "r"}, "rules": []}),
        ("POST", w.path("resourcequotas"), {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}),
        ("PATCH", f"/api/v1/namespaces/{w.namespace}", {"metadata": {"labels": {_ENFORCE: "privileged"}}}),
        ("PATCH", f"/api/v1/namespaces/{VICTIM}", {"metadata": {"labels": {"a": "b"}}}),
        ("PATCH", "/api/v1/nodes/quiet-0", {"spec": {"unschedulable": True}}),
        ("PATCH", "/api/v1/nodes/quiet-0/status", {"status": {"allocatable": {"cpu": "0"}}}),
        ("POST", f"/apis/{_SCHEDULING}/queues", queue),
        ("PATCH", f"/apis/{_SCHEDULING}/queues/default", {"spec": {"weight": 0}}),
        ("PATCH", f"/apis/{_SCHEDULING}/queues/default/status", {"status": {"state": "Closed"}}),
        ("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "top"}, "value": 10**9}),
        ("POST", "/apis/topology.volcano.sh/v1alpha1/hypernodes", {"metadata": {"name": "h"}, "spec": {"tier": 1}}),
        ("POST", "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies", {"metadata": {"name": "quiet-0"}, "spec": {}}),
        ("POST", "/apis/resource.k8s.io/v1/resourceslices", {"metadata": {"name": "s"}, "spec": {}}),
        ("PATCH", w.path("leases", "unisono-scheduler", "kube-system", "coordination.k8s.io/v1"), {"spec": {}}),
        ("DELETE", w.path("pods", "keeper", VICTIM), None),
        ("POST", w.path("events", namespace=VICTIM), {"metadata": {"name": "e"}, "involvedObject": {}}),
        ("POST", w.path("podgroups", api=_SCHEDULING), {"metadata": {"name": "p"}, "spec": {"minMember": 1}}),
        ("POST", w.path("pods", "p/binding"), {"target": {"kind": "Node", "name": "quiet-0"}}),
        ("PATCH", w.path("pods", "p/status"), {"status": {"nominatedNodeName": "quiet-0"}}),
    ]
    await w.post("pods", {"metadata": {"name": "p"}, "spec": pod(schedulingGates=[{"name": "x/y"}])})
    for method, path, body in tries:
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        status, answer = await w.ask(method, path, body, media)
        if status < 300 or status not in (401, 403, 404):
            w.fault(f"{method} {path}: {status} {answer[:120]!r}")


_ENFORCE = "pod-security.kubernetes.io/enforce"


@attack("closing queues and ending others' jobs by Commands")
async def commands(w: World) -> None:
    queue = {"apiVersion": _SCHEDULING, "kind": "Queue", "name": "default", "uid": "x", "controller": True}
    _, answer = await w.ask("GET", f"/apis/{_SCHEDULING}/queues/default")
    queue["uid"] = json.loads(answer)["metadata"]["uid"]
    own = await _own_job(w)
    for number, (owner, target) in enumerate(
        ((queue, queue), (own, queue), (queue, own), (own, {**own, "name": f"../{VICTIM}/job-1"}))
    ):
        for action in ("CloseQueue", "AbortJob", "TerminateJob"):
            body = {"metadata": {"name": f"c{number}-{action.lower()}", "ownerReferences": [owner]}, "action": action}
            await w.post("commands", {**body, "target": target}, _BUS)
            await w.ask("POST", w.path("commands", "", VICTIM, _BUS), {**body, "target": target})
    await asyncio.sleep(2)
    _, answer = await w.ask("GET", f"/apis/{_SCHEDULING}/queues/default")
    if (state := json.loads(answer).get("status", {}).get("state")) not in (None, "", "Open"):
        w.fault(f"the queue is {state}")


async def _own_job(w: World) -> dict[str, object]:
    await job(w, "own", vcjob(1))
    _, answer = await w.ask("GET", w.path("jobs", "own", api="batch.volcano.sh/v1alpha1"))
    uid = json.loads(answer)["metadata"]["uid"]
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "own", "uid": uid, "controller": True}


@attack("priority: system classes, numbers of one's own, annotations")
async def priorities(w: World) -> None:
    for number, name in enumerate(("system-node-critical", "system-cluster-critical")):
        spec = pod(priorityClassName=name)
        if await w.post("pods", {"metadata": {"name": f"p{number}"}, "spec": spec}) < 300:
            w.fault(f"a pod of the class {name}")
        await job(w, f"j{number}", vcjob(1, priorityClassName=name))
        await job(w, f"t{number}", vcjob(1, spec))
        deployment = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}}
        deployment["template"] = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
        await w.post("deployments", {"metadata": {"name": f"d{number}"}, "spec": deployment}, "apps/v1")
    status, answer = await w.ask(
        "POST", w.path("pods"), {"metadata": {"name": "n"}, "spec": {**pod(), "priority": 2_000_001_000}}
    )
    if status < 300 and json.loads(answer)["spec"].get("priority", 0) > 0:
        w.fault("a priority of one's own was kept")
    await asyncio.sleep(2)
    _, answer = await w.ask("GET", w.path("pods"))
    for item in json.loads(answer)["items"]:
        if item["spec"].get("priority", 0) > 1_000_000:
            w.fault(f"{item['metadata']['name']} has priority {item['spec']['priority']}")


@attack("events and PodGroups that speak of others")
async def poisoned_events(w: World) -> None:
    for number, about in enumerate(
        ({"kind": "Pod", "namespace": VICTIM, "name": "keeper"}, {"kind": "Node", "name": "quiet-0"})
    ):
        body = {"metadata": {"name": f"e{number}"}, "involvedObject": about, "message": "x", "reason": "R"}
        if await w.post("events", body) < 300:
            w.fault("an event about what is not of the namespace")
        newer = {
            "metadata": {"name": f"n{number}"},
            "regarding": about,
            "note": "x",
            "reason": "R",
            "action": "A",
            "type": "Normal",
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "c/c",
            "reportingInstance": "i",
        }
        if await w.post("events", newer, "events.k8s.io/v1") < 300:
            w.fault("an event (v1) about what is not of the namespace")


@attack("a queue of others: jobs, flows and templates that name it")
async def queues(w: World) -> None:
    for name in ("root", "", "default/../root", "nowhere", "x" * 253, "unisono.io"):
        await job(w, f"q{abs(hash(name)) % 1000}", vcjob(1, queue=name))
    notes = {"scheduling.volcano.sh/queue-name": "root"}
    await w.post("pods", {"metadata": {"name": "p", "annotations": notes}, "spec": pod()})
    await asyncio.sleep(2)


@attack("a Secret of another namespace in a pod: environment, volumes, projections and paths", machine=True)
async def mounted(w: World) -> None:
    for number, name in enumerate((f"../{VICTIM}/mine", f"{VICTIM}/mine", "mine")):
        env = [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": name, "key": "key", "optional": True}}}]
        volumes = [
            {"name": "a", "secret": {"secretName": name, "optional": True}},
            {"name": "b", "projected": {"sources": [{"secret": {"name": name, "optional": True}}]}},
        ]
        mounts = [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}]
        container = shell("env; cat /a/* /b/*; cat /proc/*/environ; ls -R /secret /data", env=env, volumeMounts=mounts)
        _, log = await w.pod(f"p{number}", {"containers": [container], "volumes": volumes})
        if MARK in log:
            w.fault(f"the Secret was read as {name}")


@attack("a service account of another namespace in a pod", machine=True)
async def accounts(w: World) -> None:
    for number, name in enumerate(("bystander", f"../{VICTIM}/bystander", "unisono-admin")):
        phase, log = await w.run(
            f"p{number}", "cat /var/run/secrets/kubernetes.io/serviceaccount/token", serviceAccountName=name
        )
        if "ey" in log and phase == "Succeeded":
            w.fault(f"a pod got a token of {name}")
    sources = [{"serviceAccountToken": {"path": "../../../../tmp/unisono-token", "expirationSeconds": 600}}]
    volume = {"name": "v", "projected": {"sources": sources}}
    container = shell("cat /v/*; ls -la /v", volumeMounts=[{"name": "v", "mountPath": "/v"}])
    phase, _ = await w.pod("escape", {"containers": [container], "volumes": [volume]})
    if phase == "Succeeded":
        w.fault("a token was written outside of its volume")


def other(client: HttpClient, token: str) -> HttpClient:
    """The same server with another token."""
    config = replace(client.config, token=token, client_certificate=None, client_key=None)
    return HttpClient(config, transport=Transport(config))
