"""How a job of any kind stands, in the words of Volcano's Jobs, from its object alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

ENDED: Final = frozenset({"Completed", "Failed", "Aborted", "Terminated", "Deleted"})
"""Phases of a job that will not change any more by itself."""
SUCCEEDED: Final = "Completed"
SUSPENDED: Final = "Suspended"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
"""Reason of pods and jobs that were ended by their time limit."""

_GOOD = ("Succeeded", "Complete", "Completed")
_FLOW_PHASES = {"Succeed": "Completed", "Failed": "Failed", "Running": "Running", "Terminating": "Terminating"}
_RAY_ENDS = {"SUCCEEDED": "Completed", "FAILED": "Failed", "STOPPED": "Failed"}
# Conditions say it in a sentence instead: of batch Jobs and JobSets, of TrainJobs and of RayJobs.
_LATE = re.compile(
    rf"{DEADLINE_EXCEEDED}|active longer than specified deadline|exceeded its active deadline|has passed its deadline"
)
_POD_FAILED = re.compile(r"pod \S+ failed")


def pod_failure(pod: str, exit_codes: Iterable[int], reason: str | None) -> str:
    """What a job says when it ends because one of its pods failed."""
    codes = ", ".join(map(str, sorted(exit_codes)))
    return f"pod {pod} failed{f' with exit code {codes}' if codes else ''}{f': {reason}' if reason else ''}"


def is_pod_failure(message: str) -> bool:
    """Whether a job's message is one of ``pod_failure``."""
    return _POD_FAILED.match(message) is not None


def is_timeout(message: str) -> bool:
    """Whether a job's message says that a time limit ended it."""
    return _LATE.search(message) is not None


def job_state(job: Any, *, running: bool) -> tuple[str, str]:
    """Phase of a job, and what the job says of it.

    Args:
        job: of any kind of ``unisono.jobkinds.registry.JOB_KINDS``.
        running: a pod of it runs; kinds that tell their state by conditions do not all say so.

    """
    status = job.status
    if hasattr(status, "task_status_count"):
        return status.state.phase or "Pending", status.state.message or status.state.reason or ""
    if hasattr(status, "job_deployment_status"):
        return _ray_state(status)
    if hasattr(status, "job_status_list"):
        return _FLOW_PHASES.get(status.state.phase or "", "Pending"), ""
    conditions = [each for each in status.conditions or () if each.status == "True"]
    true = {each.type: each.reason if not each.message else each.message for each in conditions}
    for good in _GOOD:
        if good in true:
            return SUCCEEDED, true[good] or ""
    for name in ("Failed", SUSPENDED, "Restarting"):
        if name in true:
            return name, true[name] or ""
    return ("Running" if "Running" in true or running else "Pending"), ""


def _ray_state(status: Any) -> tuple[str, str]:
    message = status.message or status.reason or ""
    match status.job_deployment_status:
        case "Complete":
            return _RAY_ENDS.get(status.job_status or "", "Failed"), message
        case "Failed" | "ValidationFailed":
            return "Failed", message
        case "Running" | "Suspended":
            return status.job_deployment_status, message
        case "Retrying":
            return "Restarting", message
        case _:
            return "Pending", ""
