"""Attacks on connections that have left HTTP, and by crowds of accounts that one user makes."""

from __future__ import annotations

import asyncio
import json
import struct
import time
import zlib
from collections.abc import Callable
from typing import Any

from benchmarks.tenant.rights import other
from benchmarks.tenant.table import attack
from benchmarks.tenant.world import VICTIM, World, config_map, shell
from unisono.apiserver.http.spdy import DICTIONARY
from unisono.kube.http import HttpClient

_TUNNEL = "SPDY/3.1+portforward.k8s.io"
_MESSAGE = 1 << 20


def _control(kind: int, body: bytes) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, len(body)) + body


def _message(data: bytes) -> bytes:
    """A binary message of a client, masked by zeros."""
    return struct.pack(">BBQ", 0x82, 0x80 | 127, len(data)) + bytes(4) + data


async def _running(w: World, name: str = "p") -> None:
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": w.machine},
        "containers": [shell("sleep 611")],
        "terminationGracePeriodSeconds": 0,
    }
    await w.post("pods", {"metadata": {"name": name}, "spec": spec})
    for _ in range(100):
        await asyncio.sleep(0.2)
        if json.loads((await w.ask("GET", w.path("pods", name)))[1]).get("status", {}).get("phase") == "Running":
            return


async def _tunnel(w: World, messages: int, make: Callable[[], bytes]) -> None:
    """Send messages through a session that forwards ports, as fast as they are taken."""
    head = f"GET {w.path('pods', 'p/portforward?ports=80')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer @TOKEN@\r\n"
    head += "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    head += f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: {_TUNNEL}\r\n\r\n"
    reader, writer = await w.raw(head.encode())
    try:
        if b" 101 " not in (line := await reader.readline()):
            w.answers.append(int(line.split()[1]))
            return
        w.answers.append(101)

        async def drop() -> None:
            while await reader.read(1 << 16):
                pass

        dropping = asyncio.create_task(drop())
        for _ in range(messages):
            writer.write(_message(make()))
            await writer.drain()
        await asyncio.sleep(3600)
        dropping.cancel()
    finally:
        writer.transport.abort()


def _headers(packer: Any, pairs: bytes) -> bytes:
    return bytes(packer.compress(pairs) + packer.flush(zlib.Z_SYNC_FLUSH))


@attack("one message to a forwarded port that holds 3,000 blocks of headers of 64 KiB each", machine=True)
async def header_blocks(w: World) -> None:
    await _running(w)
    packer = zlib.compressobj(1, zdict=DICTIONARY)
    block = struct.pack(">I", 8_000) + bytes(8 * 8_000)

    data = b"".join(_control(8, struct.pack(">I", 1) + _headers(packer, block)) for _ in range(3_000))
    w.hold(_tunnel(w, 1, lambda: data))
    await asyncio.sleep(5)


@attack("messages of 1 MB to forwarded ports that are empty frames, in 40 sessions", machine=True)
async def empty_frames(w: World) -> None:
    await _running(w)
    data = _control(9, struct.pack(">II", 1, 1)) * (_MESSAGE // 16 - 1)
    for _ in range(40):
        w.hold(_tunnel(w, 1_000, lambda: data))
    await asyncio.sleep(5)


@attack("streams to forwarded ports that are opened and given up without a pause", machine=True)
async def given_up(w: World) -> None:
    await _running(w)
    packer = zlib.compressobj(1, zdict=DICTIONARY)
    number = 1

    def make() -> bytes:
        nonlocal number
        made = bytearray()
        for _ in range(5_000):
            pairs = [(b"streamtype", b"error"), (b"port", b"80"), (b"requestid", b"%d" % number)]
            block = struct.pack(">I", len(pairs))
            for name, value in pairs:
                block += struct.pack(">I", len(name)) + name + struct.pack(">I", len(value)) + value
            made += _control(1, struct.pack(">II2x", number, 0) + _headers(packer, block))
            made += _control(3, struct.pack(">II", number, 5))
            number += 2
        return bytes(made)

    w.hold(_tunnel(w, 100, make))
    await asyncio.sleep(15)


_QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def _head(path: str, **more: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in more.items())
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer @TOKEN@\r\n{lines}\r\n".encode()


async def _ask_forever(w: World, data: bytes) -> None:
    """Note the first answer and read all others."""
    reader, writer = await w.raw(data)
    try:
        w.answers.append(int((await reader.readline()).split()[1]))
        while await reader.read(1 << 16):
            pass
    finally:
        writer.transport.abort()


async def _newcomer(w: World) -> HttpClient:
    """Another user, with `edit` in the bystander's namespace."""
    base = f"/api/v1/namespaces/{VICTIM}/serviceaccounts"
    _, _, answer = await w.admin.request("POST", f"{base}/bystander/token", body=b'{"spec":{"expirationSeconds":600}}')
    return other(w.admin, json.loads(answer)["status"]["token"])


async def _judge_newcomer(w: World) -> None:
    """Another user still gets a watch, and answers."""
    client = await _newcomer(w)
    beside = World(w.running, w.admin, client, VICTIM, w.machine, w.folder)
    for query in ("?watch=1&timeoutSeconds=1", ""):
        codes = [(await beside.ask("GET", _QUEUES + query))[0] for _ in range(5)]
        if any(code >= 300 for code in codes):
            w.fault(f"another user is answered {codes}")
    await client.close()


@attack("all watches that there may be, by 30 accounts of one namespace")
async def watches_of_accounts(w: World) -> None:
    for number in range(30):
        user = f"system:serviceaccount:{w.namespace}:none-{number}"
        for _ in range(55):
            w.hold(_ask_forever(w, _head(f"{_QUEUES}?watch=1", Impersonate_User=user)))
        await asyncio.sleep(0.3)
    await w.many(w.post("serviceaccounts", {"metadata": {"name": f"a{n}"}}) for n in range(10))
    for number in range(10):
        path = w.path("serviceaccounts", f"a{number}/token")
        token = json.loads((await w.ask("POST", path, {"spec": {"expirationSeconds": 600}}))[1])["status"]["token"]
        crowd = World(w.running, w.admin, other(w.admin, token), w.namespace, w.machine, w.folder)
        for _ in range(60):
            w.hold(_ask_forever(w, b"".join([_head(f"{_QUEUES}?watch=1").replace(b"@TOKEN@", token.encode())])))
        await asyncio.sleep(0.3)
        await crowd.user.close()
    await asyncio.sleep(5)
    await _judge_newcomer(w)


@attack("requests of 300 accounts of one namespace, one of each at a time")
async def requests_of_accounts(w: World) -> None:
    for number in range(300):
        user = f"system:serviceaccount:{w.namespace}:none-{number % 300}"
        w.hold(_ask_forever(w, _head(_QUEUES, Impersonate_User=user) * 300))
    await asyncio.sleep(8)
    await _judge_newcomer(w)


@attack("uploads of a byte a second by ten accounts of one namespace, forty of each")
async def uploads_of_accounts(w: World) -> None:
    async def one(number: int) -> None:
        user = f"system:serviceaccount:{w.namespace}:none-{number % 10}"
        head = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews HTTP/1.1\r\nHost: x\r\n"
        head += f"Impersonate-User: {user}\r\n"
        head += "Authorization: Bearer @TOKEN@\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
        reader, writer = await w.raw(head.encode())
        try:
            while not writer.transport.is_closing() and not reader.at_eof():
                writer.write(b"{")
                await asyncio.sleep(1)
        finally:
            writer.transport.abort()

    for number in range(400):
        w.hold(one(number))
    await asyncio.sleep(8)
    await _judge_newcomer(w)


@attack("3 MB of YAML, 90 at a time without a pause, beside another user's ConfigMap of 40 kB")
async def heavy(w: World) -> None:
    body = b"a: [" + b"{}," * 900_000 + b"]"

    async def loop() -> None:
        while True:
            await w.ask("POST", w.path("configmaps"), body, "application/yaml")

    for _ in range(90):
        w.hold(loop())
    await asyncio.sleep(5)
    client = await _newcomer(w)
    beside = World(w.running, w.admin, client, VICTIM, w.machine, w.folder)
    began = time.monotonic()
    status, answer = await beside.ask("POST", w.path("configmaps", namespace=VICTIM), config_map("heavy", 40_000))
    took = time.monotonic() - began
    await beside.ask("DELETE", w.path("configmaps", "heavy", VICTIM))
    if status >= 300 or took > 20:
        w.fault(f"a ConfigMap of 40 kB: {status} {answer[:100]!r} after {took:.1f} s")
    await client.close()
