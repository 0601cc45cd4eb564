"""Attacks on memory and connections."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from benchmarks.tenant.table import attack
from benchmarks.tenant.world import APPLY, JSON_PATCH, STRATEGIC, World, config_map, shell

_BATCH = "batch.volcano.sh/v1alpha1"


@attack("800 ConfigMaps of 1 MB")
async def maps(w: World) -> None:
    statuses = await w.many(w.post("configmaps", config_map(f"m{n}", 1_000_000)) for n in range(800))
    if sum(status < 300 for status in statuses) > 700:
        w.fault("nothing bounds what one namespace stores")


@attack("3,000 small ConfigMaps, listed by pages of one whose next page is not asked for")
async def pages(w: World) -> None:
    await w.many(w.post("configmaps", config_map(f"m{n}", 100)) for n in range(3_000))
    await w.many(w.ask("GET", w.path("configmaps") + "?limit=1") for _ in range(3_000))


@attack("300 Secrets of 1 MB, each rewritten three times")
async def secrets(w: World) -> None:
    body = {"stringData": {"x": "y" * 1_000_000}}
    await w.many(w.post("secrets", {"metadata": {"name": f"s{n}"}, **body}) for n in range(300))
    for turn in range(3):
        patch = {"stringData": {"x": str(turn) * 1_000_000}}
        path = [w.path("secrets", f"s{n}") for n in range(300)]
        await w.many(w.ask("PATCH", each, patch, "application/merge-patch+json") for each in path)


@attack("annotations of 1 MiB, and of 250 KiB on 500 objects")
async def annotations(w: World) -> None:
    big = {"metadata": {"name": "big", "annotations": {"a": "x" * 2**20}}}
    if await w.post("configmaps", big) < 300:
        w.fault("1 MiB of annotations was taken")
    await w.many(
        w.post("configmaps", {"metadata": {"name": f"a{n}", "annotations": {"a": "x" * 250_000}}}) for n in range(500)
    )


@attack("an object applied by 3,000 managers")
async def managers(w: World) -> None:
    async def one(n: int) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("m", 0, **{f"k{n}": "v"})}
        await w.ask("PATCH", w.path("configmaps", "m") + f"?fieldManager=m{n}&force=true", body, APPLY)

    await w.many(one(n) for n in range(3_000))


@attack("JSON patches that copy what they copied, 40 times over")
async def copies(w: World) -> None:
    job = {"minAvailable": 1, "tasks": [{"name": "a", "replicas": 1, "template": {"spec": _pod()}}]}
    await w.post("jobs", {"metadata": {"name": "j"}, "spec": job}, _BATCH)
    doubling = [{"op": "copy", "from": "/spec", "path": f"/spec/x{n}"} for n in range(40)]
    await w.many(w.ask("PATCH", w.path("jobs", "j", api=_BATCH), doubling, JSON_PATCH) for _ in range(50))


@attack("YAML whose aliases expand to 10^9 values")
async def laughs(w: World) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    body = "\n".join(["apiVersion: v1", "kind: ConfigMap", "metadata: {name: y}", *lines]).encode()
    await w.many(w.ask("POST", w.path("configmaps"), body, "application/yaml") for _ in range(50))


@attack("strategic patches with 20,000 directives")
async def directives(w: World) -> None:
    await w.post("pods", {"metadata": {"name": "p"}, "spec": {**_pod(), "schedulingGates": [{"name": "x/y"}]}})
    order = {"$setElementOrder/containers": [{"name": f"c{n}"} for n in range(20_000)]}
    gone = {"containers": [{"name": f"c{n}", "$patch": "delete"} for n in range(20_000)]}
    for body in (order, gone, {**order, **gone}):
        await w.many(w.ask("PATCH", w.path("pods", "p"), {"spec": body}, STRATEGIC) for _ in range(10))


@attack("1,000 watches that are not read, of objects that change all the time")
async def watches(w: World) -> None:
    await w.unread(w.path("configmaps") + "?watch=1", 1_000)
    await w.many(w.post("configmaps", config_map(f"m{n}", 300_000)) for n in range(200))


@attack("300 lists of 100 MB that are not read")
async def lists(w: World) -> None:
    await w.many(w.post("configmaps", config_map(f"m{n}", 1_000_000)) for n in range(100))
    await w.unread(w.path("configmaps"), 300)


@attack("500 uploads of a byte a second")
async def uploads(w: World) -> None:
    async def one() -> None:
        head = f"POST {w.path('configmaps')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer @TOKEN@\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
        _, writer = await w.raw(head.encode())
        try:
            while not writer.transport.is_closing():
                writer.write(b"{")
                await asyncio.sleep(1)
        finally:
            writer.transport.abort()

    for _ in range(500):
        w.hold(one())
    await asyncio.sleep(5)


@attack("150 uploads of 3 MB at once, of which the last byte is missing")
async def nearly(w: World) -> None:
    async def one() -> None:
        head = f"POST {w.path('configmaps')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer @TOKEN@\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 3000000\r\n\r\n"
        _, writer = await w.raw(head.encode())
        try:
            writer.write(b"x" * 2_999_999)
            await writer.drain()
            await asyncio.sleep(3600)
        finally:
            writer.transport.abort()

    for _ in range(150):
        w.hold(one())
    await asyncio.sleep(5)


@attack("20,000 events")
async def events(w: World) -> None:
    about = {"kind": "Pod", "namespace": w.namespace, "name": "x"}
    await w.many(
        w.post(
            "events", {"metadata": {"name": f"e{n}"}, "involvedObject": about, "message": "x" * 900, "reason": f"R{n}"}
        )
        for n in range(20_000)
    )


@attack("200 followed logs, 60 shells and 60 forwarded ports on one machine", machine=True)
async def streams(w: World) -> None:
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": w.machine},
        "containers": [shell("yes x | head -c 5000000; sleep 600")],
    }
    await w.post("pods", {"metadata": {"name": "p"}, "spec": {**spec, "terminationGracePeriodSeconds": 0}})
    for _ in range(100):
        await asyncio.sleep(0.2)
        if json.loads((await w.ask("GET", w.path("pods", "p")))[1]).get("status", {}).get("phase") == "Running":
            break
    await w.unread(w.path("pods", "p/log") + "?follow=true", 200)

    async def socket(path: str, protocol: str) -> None:
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer @TOKEN@\r\nConnection: Upgrade\r\n"
        head += "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        head += f"Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
        reader, writer = await w.raw(head.encode())
        try:
            await reader.readline()
            await asyncio.sleep(3600)
        finally:
            writer.transport.abort()

    command = "command=sh&command=-c&command=yes&stdout=true"
    for _ in range(60):
        w.hold(socket(w.path("pods", f"p/exec?{command}"), "v5.channel.k8s.io"))
        w.hold(socket(w.path("pods", "p/portforward?ports=80"), "portforward.k8s.io"))
    await asyncio.sleep(5)


@attack("2,000 tokens")
async def tokens(w: World) -> None:
    path = w.path("serviceaccounts", "default/token")
    await w.many(w.ask("POST", path, {"spec": {"expirationSeconds": 600}}) for _ in range(2_000))


@attack("deep patches: 10,000 levels of JSON")
async def deep(w: World) -> None:
    body = (b'{"a":' * 10_000) + b"1" + b"}" * 10_000
    for media in ("application/merge-patch+json", STRATEGIC, APPLY, "application/json"):
        await w.many(w.ask("PATCH", w.path("configmaps", "kube-root-ca.crt"), body, media) for _ in range(20))


def _pod() -> dict[str, Any]:
    wanted = {"requests": {"cpu": "10m", "memory": "1Mi"}}
    return {"schedulerName": "volcano", "containers": [{"name": "c", "image": "x", "resources": wanted}]}
