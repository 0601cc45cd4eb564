"""Attacks on the reader's terminal: what commands print of other users' objects."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from benchmarks.tenant.scheduling import job, pod, vcjob
from benchmarks.tenant.table import attack
from benchmarks.tenant.world import World

_BAD = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202eevil\u202c\r\b%s%n{0}${HOME}\nFAKE\u2028line"
# What a terminal obeys: escape, bell, control sequences of one byte, and marks that turn the text around.
_OBEYED = ("\x1b[2J", "\x1b]0;", "\x07", "\x9b", "\u202e")


@attack("escape sequences, marks of direction and format strings in everything that commands print")
async def escapes(w: World) -> None:
    notes = {"kubernetes.io/description": _BAD, "unisono.io/verdict": _BAD, "example.com/x": _BAD}
    spec = pod()
    spec["containers"][0] |= {"image": _BAD, "command": ["sh", _BAD], "env": [{"name": "A", "value": _BAD}]}
    await w.post("pods", {"metadata": {"name": "p", "annotations": notes}, "spec": spec})
    await job(w, "j", vcjob(1, {**spec, "nodeSelector": {"nowhere": "x"}}), annotations=notes)
    await w.post("configmaps", {"metadata": {"name": "m", "annotations": notes}, "data": {"k": _BAD}})
    for number, about in enumerate(({"kind": "Pod", "name": "p"}, {"kind": "Job", "name": "j"})):
        body = {
            "metadata": {"name": f"e{number}"},
            "involvedObject": {**about, "namespace": w.namespace},
            "message": _BAD,
            "reason": _BAD[:100],
            "type": "Warning",
            "source": {"component": _BAD, "host": _BAD},
        }
        await w.post("events", body)
    await asyncio.sleep(3)
    commands = (
        *("get pods", "get pods -o wide", "get events", "get jobs", "get configmaps", "get podgroups"),
        *("describe pod p", "describe job j", "describe configmap m", "explain pod/p", "explain job/j", "events"),
        *("job list", "job view j", "squeue", "status", "queue list", "top", "logs p"),
    )
    for command in commands:
        output = await asyncio.to_thread(_printed, w, command)
        for sequence in _OBEYED:
            if sequence in output:
                w.fault(f"`unisono {command}` prints {sequence!r}")


def _printed(w: World, command: str) -> str:
    """What a command prints on a terminal."""
    kubeconfig = str(w.folder / "data" / "kubeconfig")
    arguments = [*command.split(), "--kubeconfig", kubeconfig, "--namespace", w.namespace]
    done = subprocess.run([sys.executable, "-m", "unisono", *arguments], capture_output=True, timeout=60, check=False)
    return (done.stdout + done.stderr).decode(errors="replace")
