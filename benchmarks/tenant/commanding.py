"""Attacks on administrators: their commands read a namespace full of hostile objects."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

from benchmarks.tenant.scheduling import job, pod, vcjob
from benchmarks.tenant.table import attack
from benchmarks.tenant.world import World

_LONGEST_SECONDS = 30.0
_COMMANDS = (
    *("explain job/j-0", "explain job/own-0", "explain", "squeue", "status", "queue list", "job list"),
    *("report --by user", "report --by job -o json", "top", "get pods -o wide", "describe job j-0", "sacct", "sinfo"),
    *("logs p-0", "describe pod p-0"),
)


@attack("600 waiting jobs of odd names, amounts and histories, looked at by an administrator with all commands")
async def looked_at(w: World) -> None:
    forged = '{"cause": 1e400, "need": {"cpu": "' + "9" * 2_000 + '"}}'
    odd = {"unisono.io/verdict": forged, "example.com/x": "y" * 50_000}
    for n in range(200):
        amounts = {"cpu": "72057594037927", **{f"example.com/r{n}-{m}": "1" for m in range(20)}}
        spec = pod()
        spec["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        await job(w, f"j-{n}", vcjob(2, {**spec, "nodeSelector": {f"k{m}": "v" for m in range(100)}}), annotations=odd)
        terms = [{"labelSelector": {}, "topologyKey": f"zone-{m}"} for m in range(20)]
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        await job(w, f"own-{n}", vcjob(10, pod(affinity=affinity), priorityClassName=""))
        await w.post("pods", {"metadata": {"name": f"p-{n}", "annotations": odd}, "spec": pod("64")})
    await asyncio.sleep(3)

    async def looks() -> None:
        for command in _COMMANDS:
            began = time.monotonic()
            output, ended = await asyncio.to_thread(_run, w, command)
            took = time.monotonic() - began
            if "Traceback" in output or ended < 0 or took > _LONGEST_SECONDS:
                w.fault(f"`unisono {command}`: {ended} after {took:.1f} s: {output[-300:]}")

    w.hold(looks())
    await asyncio.sleep(20)


def _run(w: World, command: str) -> tuple[str, int]:
    kubeconfig = str(w.folder / "data" / "kubeconfig")
    more = [] if command.startswith(("report", "sacct", "sinfo", "status", "queue")) else ["--namespace", w.namespace]
    arguments = [*command.split(), "--kubeconfig", kubeconfig, *more]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "unisono", *arguments], capture_output=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return "no answer within 60 seconds", -1
    return (done.stdout + done.stderr).decode(errors="replace"), done.returncode
