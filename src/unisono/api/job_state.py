"""Words in which jobs of every kind tell how they stand: those of Volcano's Jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

ENDED: Final = frozenset({"Completed", "Failed", "Aborted", "Terminated", "Deleted"})
"""Phases of a job that will not change any more by itself."""
SUCCEEDED: Final = "Completed"
SUSPENDED: Final = "Suspended"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
"""Reason of pods and jobs that were ended by their time limit."""

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
