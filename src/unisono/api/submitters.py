"""Kinds of which it is written down who submits them (annotation ``unisono.io/user``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from unisono.api.annotations import ADMITTED_QUEUES, USER
from unisono.api.kind import Kind
from unisono.api.kind_families import (
    COMPOSITE_POD_GROUPS,
    CRON_JOBS,
    HYPER_JOBS,
    JOB_FLOWS,
    RUN_KINDS,
    WORKLOAD_POD_GROUPS,
)
from unisono.api.kinds import JOBS, POD_GROUPS

SUBMITTED: Final[tuple[Kind[Any], ...]] = (
    JOBS,
    POD_GROUPS,
    WORKLOAD_POD_GROUPS,
    COMPOSITE_POD_GROUPS,
    *RUN_KINDS,
    CRON_JOBS,
    JOB_FLOWS,
    HYPER_JOBS,
)
"""What becomes a PodGroup, and what such objects are made from: limits and shares of users rest on it."""


_OF_AUTHORS: Final = (USER, ADMITTED_QUEUES)


def handed_down(owner: Mapping[str, str] | None, given: Mapping[str, str] | None) -> dict[str, str]:
    """Annotations ``given`` for what a controller makes of an owner: it is the owner's author's, whatever they say."""
    kept = {key: value for key, value in (given or {}).items() if key not in _OF_AUTHORS}
    return kept | {key: owner[key] for key in _OF_AUTHORS if owner and owner.get(key)}
