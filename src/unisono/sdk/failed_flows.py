"""What a JobFlow waits for whose job has failed: it goes on when that job is deleted, and so made again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unisono.api.flow_kinds import JOB_FLOWS
from unisono.api.kinds import JOBS
from unisono.sdk.fixes.fix import Fix, Operation
from unisono.sdk.fixes.of_changes import command
from unisono.sdk.fixes.owners import read

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

_OVER = ("Failed", "Terminated", "Aborted")
_TOLD = re.compile(r"its job (\S+) is (Failed|Terminated|Aborted)\b.*and what depends on it waits until")


def failed_flow(item: Mapping[str, Any], parts: Sequence[Any]) -> str:
    """Which job of a flow has failed, and why; empty where none has, and for other kinds.

    Args:
        item: the flow as the server sent it.
        parts: its jobs.

    """
    if item.get("kind", JOB_FLOWS.kind) != JOB_FLOWS.kind or "flows" not in (item.get("spec") or {}):
        return ""
    for job in parts:
        state = getattr(job.status, "state", None)
        phase = getattr(state, "phase", None)
        if state is None or phase not in _OVER:
            continue
        why = (state.message or state.reason or "").rstrip(".")
        told = f"its job {job.metadata.name} is {phase}{f' ({why})' if why else ''}"
        way = "it is resumed" if phase == "Aborted" else "it is deleted, and so made again"
        return f"{told}, and what depends on it waits until {way}"
    return ""


async def begun_again(client: HttpClient, stalled: str, namespace: str) -> list[Fix]:
    """The fix for what `failed_flow` says; none for anything else."""
    found = _TOLD.search(stalled)
    if found is None:
        return []
    name, phase = found[1], found[2]
    if phase != "Aborted":
        operation = Operation("delete", JOBS, name, namespace)
        return [
            Fix(f"delete job {name}: the flow makes it again", False, {"kind": "DeleteJob", "job": name}, (operation,))
        ]
    job = await read(client, JOBS, name, namespace)
    if job is None:
        return []
    operation = command(JOBS, name, job["metadata"].get("uid", ""), "ResumeJob", namespace)
    return [Fix(f"resume job {name}", False, {"kind": "ResumeJob", "job": name}, (operation,))]
