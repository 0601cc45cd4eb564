"""What a JobFlow waits for whose job has failed: it goes on when that job is deleted, and so made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unisono.api.kind_families import JOB_FLOWS
from unisono.api.kinds import JOBS
from unisono.sdk.fixes.fix import Fix, Operation
from unisono.sdk.fixes.operations import command
from unisono.sdk.fixes.owners import read

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

_ABORTED = "Aborted"
_OVER = ("Failed", "Terminated", _ABORTED)


@dataclass(frozen=True, slots=True)
class FailedStep:
    """A job of a flow that has ended without success, in which phase, and why."""

    job: str
    phase: str
    why: str = ""

    def __str__(self) -> str:
        """Why the flow does not go on."""
        problem = f"its job {self.job} is {self.phase}{f' ({self.why})' if self.why else ''}"
        way = "it is resumed" if self.phase == _ABORTED else "it is deleted, and so made again"
        return f"{problem}, and what depends on it waits until {way}"


def failed_step(item: Mapping[str, Any], parts: Sequence[Any]) -> FailedStep | None:
    """The job of a flow that has failed; None where none has, and for other kinds.

    Args:
        item: the flow as the server sent it.
        parts: its jobs.
    """
    if item.get("kind", JOB_FLOWS.kind) != JOB_FLOWS.kind or "flows" not in (item.get("spec") or {}):
        return None
    for job in parts:
        state = getattr(job.status, "state", None)
        phase = getattr(state, "phase", None)
        if state is not None and phase in _OVER:
            return FailedStep(job.metadata.name, phase, (state.message or state.reason or "").rstrip("."))
    return None


async def begun_again(client: HttpClient, step: FailedStep, namespace: str) -> list[Fix]:
    """What lets a flow go on after this job; nothing where an aborted one is not there any more."""
    name = step.job
    if step.phase != _ABORTED:
        operation = Operation("delete", JOBS, name, namespace)
        return [
            Fix(f"delete job {name}: the flow makes it again", False, {"kind": "DeleteJob", "job": name}, (operation,))
        ]
    job = await read(client, JOBS, name, namespace)
    if job is None:
        return []
    operation = command(JOBS, name, job["metadata"].get("uid", ""), "ResumeJob", namespace)
    return [Fix(f"resume job {name}", False, {"kind": "ResumeJob", "job": name}, (operation,))]
