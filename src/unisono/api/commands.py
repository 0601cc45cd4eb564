"""What a Command is for: the one place that reads its target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unisono.api.groups.batch import Command
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS, QUEUES

TARGETS: tuple[Kind[Any], ...] = (JOBS, QUEUES)
"""Kinds that obey commands."""

COMMANDS_OF: Mapping[Kind[Any], tuple[str, ...]] = {
    JOBS: ("AbortJob", "ResumeJob", "RestartJob", "TerminateJob", "CompleteJob"),
    QUEUES: ("OpenQueue", "CloseQueue"),
}
"""What they obey."""


def target_of(command: Command) -> tuple[Kind[Any], str] | None:
    """Kind and key of the object that the command is for; None for a target that no controller obeys.

    A job is one of the command's own namespace, whatever the target says; queues have no namespace.
    """
    target = command.target
    if target is None:
        return None
    group = target.api_version.partition("/")[0]
    for kind in TARGETS:
        if (kind.kind, kind.group) == (target.kind, group):
            return kind, f"{command.metadata.namespace}/{target.name}" if kind.namespaced else target.name
    return None
