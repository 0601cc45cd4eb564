"""How far a job says that it is: ``progress: 30/100`` in its log, or the annotation ``unisono.io/progress`` (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from unisono.api.annotations import PROGRESS

_LINE = re.compile(r"\bprogress: ?(\d{1,12}) ?/ ?(\d{1,12})\b", re.IGNORECASE)
_VALUE = re.compile(r"\s*(\d{1,12})\s*/\s*(\d{1,12})\s*")


class Steps(NamedTuple):
    """Steps done, of all."""

    done: int
    total: int

    def __str__(self) -> str:
        """``30/100``."""
        return f"{self.done}/{self.total}"


def steps_of_line(text: str) -> Steps | None:
    """The last ``progress: 30/100`` of a log line; None where there is none."""
    found = _LINE.findall(text)
    return _steps(*found[-1]) if found else None


def says_steps_alone(text: str) -> bool:
    """Whether a log line says how far the job is and nothing else."""
    return _LINE.fullmatch(text.strip()) is not None


def steps_of_annotations(annotations: Mapping[str, str] | None) -> Steps | None:
    """What ``unisono.io/progress: 30/100`` says; None where it is absent or says something else."""
    match = _VALUE.fullmatch((annotations or {}).get(PROGRESS, ""))
    return _steps(match[1], match[2]) if match else None


def slowest(found: Iterable[Steps]) -> Steps | None:
    """The process that is least far: a gang is as far as its slowest process."""
    return min(found, key=lambda steps: steps.done / steps.total, default=None)


def _steps(done: str, total: str) -> Steps | None:
    return Steps(min(int(done), int(total)), int(total)) if int(total) > 0 else None
