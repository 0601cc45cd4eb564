"""Labels, annotations and other texts of pods: their keys, numbers and JSON in them, lists of hosts."""

from __future__ import annotations

import json
from typing import Any, Final

from unisono.api.keys import (
    COOLDOWN_TIME,
    JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE,
    PREEMPTABLE,
    REVOCABLE_ZONE,
)
from unisono.api.validation.cluster import LARGEST
from unisono.errors import UnisonoError

# Labels and annotations that tie pods, pod groups and queues to their jobs.

# Which restart killed the pod: written before the job's status, so that a crash in between loses no retry.
RESTART_ROUND = "unisono.io/restart-round"


# Annotations and labels that pods and pod groups take over from their job or from the pod they are made for.
INHERITED_ANNOTATIONS = (PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE)
INHERITED_LABELS = (PREEMPTABLE, COOLDOWN_TIME)


def disruption_budget(annotations: dict[str, str]) -> dict[str, str]:
    """The job's disruption budget: the least available pods, or else the most unavailable ones."""
    for key in (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE):
        if key in annotations:
            return {key: annotations[key]}
    return {}


def inherited_annotations(annotations: dict[str, str]) -> dict[str, str]:
    """What a pod or pod group takes over from these annotations."""
    taken = {key: annotations[key] for key in INHERITED_ANNOTATIONS if key in annotations}
    return taken | disruption_budget(annotations)


def inherited_labels(labels: dict[str, str]) -> dict[str, str]:
    """What a pod or pod group takes over from these labels."""
    return {key: labels[key] for key in INHERITED_LABELS if key in labels}


# Numbers and JSON in texts that users write: labels, annotations, flags, messages of containers (pure).

LARGEST_NUMBER: Final = 2**63 - 1
"""The largest number that is told from larger ones, as in Kubernetes' int64."""
_DIGITS = len(str(LARGEST_NUMBER))


def whole_number(text: str | None) -> int | None:
    """The number that ASCII digits name, `LARGEST` at most; None for every other text.

    Python's ``isdigit`` and ``isdecimal`` are true for texts that ``int`` refuses: ``²``, and more than 4,300 digits.
    """
    if not text or not text.isascii() or not text.isdigit():
        return None
    digits = text.lstrip("0")
    return LARGEST_NUMBER if len(digits) > _DIGITS else min(int(digits or "0"), LARGEST_NUMBER)


def json_object(text: str | None) -> dict[str, Any]:
    """The JSON object that a text holds; empty where it holds none, or one that is nested too deep to be read."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# Lists of all hosts of a job: how long they may be in an environment variable and in a ConfigMap (pure).

LONGEST_VARIABLE = 128 * 1024
"""Longest NAME=value that Linux takes when it starts a program, its final zero included."""


class TooManyHosts(UnisonoError):
    """A list of the job's hosts does not fit where its pods look for it."""


def variable_too_long(name: str, value: str) -> str:
    """Why no container would start with the variable; empty when it would."""
    if len(name) + len(value) + 2 <= LONGEST_VARIABLE:
        return ""
    return (
        f"{name} of {len(value)} characters is too long for an environment variable "
        f"({LONGEST_VARIABLE} with its name): the job has too many pods for it; use fewer."
    )


def list_too_long(hosts: int, size: int) -> str:
    """Why a ConfigMap cannot hold lists of so many hosts of ``size`` bytes together; empty when it can."""
    if size <= LARGEST:
        return ""
    return (
        f"lists of {hosts} hosts take {size} bytes, more than the {LARGEST} that a ConfigMap holds: "
        "the job has too many pods; use fewer, or shorter names."
    )
