"""How objects tell their state: conditions, phases of jobs in Volcano's words, and finalizers that keep them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

from unisono.api.base import Object

# Conditions of any kind by their type.


class Typed(Protocol):
    """What conditions of all kinds have."""

    @property
    def type(self) -> str:
        """Such as ``Ready``."""
        ...

    @property
    def status(self) -> str | None:
        """``True``, ``False`` or ``Unknown``."""
        ...


C = TypeVar("C", bound=Typed)


def find_condition(conditions: Iterable[C] | None, type: str) -> C | None:
    """The condition of a type; None without one."""
    return next((each for each in conditions or () if each.type == type), None)


def is_true(conditions: Iterable[Typed] | None, type: str) -> bool:
    """Whether the condition of a type is there, with status ``True``."""
    return any(each.type == type and each.status == "True" for each in conditions or ())


# Words in which jobs of every kind tell how they stand: those of Volcano's Jobs.

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


# Finalizers of objects: names that keep an object until those who set them take them away.


def has_finalizer(obj: Object, name: str) -> bool:
    """Whether an object has the finalizer."""
    return name in (obj.metadata.finalizers or ())


def without(finalizers: Iterable[str] | None, name: str) -> list[str] | None:
    """The other finalizers, as a field of an object has them; None where none is left."""
    return [each for each in finalizers or () if each != name] or None
