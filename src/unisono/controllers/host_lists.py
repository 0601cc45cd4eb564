"""Lists of all hosts of a job: how long they may be in an environment variable and in a ConfigMap (pure)."""

from __future__ import annotations

from unisono.api.validation.cluster import LARGEST
from unisono.errors import UnisonoError

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
