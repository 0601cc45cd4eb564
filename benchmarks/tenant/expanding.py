"""Attacks by small pods on the machine that expand to much: variables, volumes, names, files, probes, processes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from benchmarks.tenant.table import attack
from benchmarks.tenant.world import Body, World, config_map, shell


async def _start(w: World, name: str, spec: Body, **metadata: Any) -> None:
    """A pod on the machine; nothing waits for it."""
    wanted = {"nodeSelector": {"kubernetes.io/hostname": w.machine}, "terminationGracePeriodSeconds": 0, **spec}
    await w.post("pods", {"metadata": {"name": name, **metadata}, "spec": {"restartPolicy": "Never", **wanted}})


@attack("variables that double 60 times, and arguments of 300,000 unclosed references", machine=True)
async def variables(w: World) -> None:
    env = [{"name": "A0", "value": "x" * 1000}]
    env += [{"name": f"A{n}", "value": f"$(A{n - 1})$(A{n - 1})"} for n in range(1, 60)]
    for number in range(5):
        await _start(w, f"doubling{number}", {"containers": [shell("true", env=env)]})
        await _start(w, f"open{number}", {"containers": [{**shell("true"), "args": ["$(" * 300_000]}]})
    await asyncio.sleep(3)


@attack("a key of 1 MB in 20,000 files, and annotations of 200 KB in 10,000 files of a volume", machine=True)
async def volumes(w: World) -> None:
    await w.post("configmaps", config_map("big", 1_000_000))
    keys = [{"key": "x", "path": f"p{n}"} for n in range(20_000)]
    fields = [{"path": f"p{n}", "fieldRef": {"fieldPath": "metadata.annotations"}} for n in range(10_000)]
    container = shell("ls /v | wc -l", volumeMounts=[{"name": "v", "mountPath": "/v"}])
    given: tuple[Body, ...] = ({"configMap": {"name": "big", "items": keys}}, {"downwardAPI": {"items": fields}})
    for number, volume in enumerate(given):
        spec = {"containers": [container], "volumes": [{"name": "v", **volume}]}
        await _start(w, f"p{number}", spec, annotations={"a": "x" * 200_000})
    await asyncio.sleep(5)
    size = sum(file.stat().st_size for file in (w.folder / "data" / "agent" / "pods").rglob("volumes/v/*"))
    if size > 1 << 30:
        w.fault(f"files of volumes take {size >> 20} MiB")


@attack("1,500 Services that select all of 40 pods, changed all the time", machine=True)
async def names(w: World) -> None:
    for number in range(40):
        await _start(w, f"p{number}", {"containers": [shell("sleep 120")], "subdomain": "s"}, labels={"a": "b"})
    await asyncio.sleep(8)

    async def one(number: int) -> None:
        await w.post(
            "services", {"metadata": {"name": f"s{number}"}, "spec": {"selector": {"a": "b"}, "clusterIP": "None"}}
        )

    await w.many(one(number) for number in range(1_500))
    files = (w.folder / "data" / "agent" / "pods").glob("*/hosts")
    if (largest := max((file.stat().st_size for file in files), default=0)) > 2_000_000:
        w.fault(f"a hosts file has {largest} bytes")


@attack("300,000 files in a volume of a pod that is deleted", machine=True)
async def files(w: World) -> None:
    script = "cd /v && for d in $(seq 300); do mkdir $d; (cd $d; seq 1000 | xargs touch); done"
    container = shell(script, volumeMounts=[{"name": "v", "mountPath": "/v"}])
    await w.pod("p", {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}, 60)
    await w.ask("DELETE", w.path("pods", "p") + "?gracePeriodSeconds=0")
    await asyncio.sleep(1)


@attack("probes that leave writers behind, ask for impossible hosts, and read answers without end", machine=True)
async def probes(w: World) -> None:
    endless = (
        "import socket\ns = socket.create_server(('0.0.0.0', 8099))\n"
        "while True:\n  c, _ = s.accept()\n  try:\n    while True: c.sendall(b'HTTP/1.1 ' + b'2' * 65536)\n"
        "  except OSError: pass"
    )
    actions: tuple[tuple[str, Body], ...] = (
        ("sleep 60", {"exec": {"command": ["sh", "-c", "for i in 1 2 3 4; do setsid yes & done; exit 0"]}}),
        ("sleep 60", {"exec": {"command": ["yes"]}, "timeoutSeconds": 3600}),
        (f'exec python3 -c "{endless}"', {"httpGet": {"port": 8099}, "timeoutSeconds": 60}),
        ("sleep 60", {"tcpSocket": {"host": "a" * 64 + ".b", "port": 80}}),
        ("sleep 60", {"httpGet": {"host": "x", "port": 1, "httpHeaders": [{"name": "a", "value": "b\r\nc: d"}]}}),
    )
    for number, (script, action) in enumerate(actions):
        probe = {"periodSeconds": 1, "failureThreshold": 1000, **action}
        hook = {key: value for key, value in action.items() if key != "timeoutSeconds"}
        container = shell(script, livenessProbe=probe, lifecycle={"preStop": hook})
        await _start(w, f"p{number}", {"containers": [container]})
    await asyncio.sleep(8)


@attack("200 processes of one pod that use all processors", machine=True)
async def spinning(w: World) -> None:
    script = "for i in $(seq 200); do (while :; do :; done) & done; sleep 12"
    await _start(w, "p", {"containers": [shell(script)]})
    await asyncio.sleep(8)


@attack("signals to, and files of, every process that a pod can name", machine=True)
async def signals(w: World) -> None:
    before = _control_plane(w)
    # Should pods be root after all, nothing of the machine is to die of it.
    safe = "test $(id -u) -gt 1000000 || exit 1; "
    script = safe + "kill -9 -1; for p in $(seq 1 40000); do kill -9 $p; kill -STOP $p; done; kill -9 0"
    await w.run("p", script, 15)
    await w.run("q", f"{safe}for p in {' '.join(map(str, before))}; do kill -9 $p; done; ls -l /proc/*/fd; id", 10)
    if _control_plane(w) != before:
        w.fault("processes of the control plane have ended")


def _control_plane(w: World) -> list[int]:
    """Process ids of what runs on the control plane's data."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                line = (place / "cmdline").read_bytes()
            except OSError:
                continue
            if b"unisono" in line and os.fsencode(w.folder / "data") in line and b"shim" not in line:
                found.append(int(place.name))
    return sorted(found)
