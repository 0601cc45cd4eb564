"""Why a job waits, as an object: the verdict that the scheduler keeps on the job's PodGroup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from unisono.api.annotations import VERDICT


class Holder(msgspec.Struct, frozen=True, rename="camel"):
    """Who holds what a job waits for; amounts in engine units."""

    kind: str = ""
    name: str = ""
    amounts: dict[str, int] = {}


class Verdict(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Why one job waits. Amounts are in engine units: memory in bytes, everything else in thousandths.

    Attributes:
        job: ``namespace/name`` of its PodGroup.
        cause: one of a closed list, such as ``NodesFull`` or ``QueueClosed``; programs may switch on it.
        message: one sentence with numbers.
        need, have: what the job asks for, and what could be given.
        tasks_placeable, tasks_needed: pods of the gang that would find a place, and how many it needs.
        reasons: number of nodes by the text of their refusal.
        nodes: how many nodes were looked at.
        holders: who holds it, the largest first.
        suggestion: what would start the job, in words; empty where nothing is known.
        change: the same for programs: ``{"kind": "AddNodes", "like": "n1", "count": 2}``.
        otherwise: further changes, each of which would do as well.
        would_run_after: pods of lower rank without which the job would start.
        would_run_after_count: how many there are where the list was cut.
        spared: why those pods are not evicted, where limits on evictions are the reason, and when they may be.
        plugins_off: plug-ins that were switched off for the cycle.
        task: the pod that ``reasons`` speaks of.
        queue: the job's queue.

    """

    job: str = ""
    cause: str = ""
    message: str = ""
    need: dict[str, int] = {}
    have: dict[str, int] = {}
    tasks_placeable: int = 0
    tasks_needed: int = 0
    reasons: dict[str, int] = {}
    nodes: int = 0
    holders: tuple[Holder, ...] = ()
    suggestion: str = ""
    change: dict[str, Any] = {}
    otherwise: tuple[dict[str, Any], ...] = ()
    would_run_after: tuple[str, ...] = ()
    would_run_after_count: int = 0
    spared: str = ""
    plugins_off: tuple[str, ...] = ()
    task: str = ""
    queue: str = ""

    def __str__(self) -> str:
        """The message, and what to try."""
        return f"{self.message} (try: {self.suggestion})" if self.suggestion else self.message


# What every job goes through for a moment: nothing that a user could do, or would want to read.
PASSING = frozenset({"NoPods", "WaitingForBind"})


def parse(annotations: Mapping[str, str] | None) -> Verdict | None:
    """The verdict in a PodGroup's annotations; None without one, or where somebody else wrote it."""
    text = (annotations or {}).get(VERDICT)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=Verdict)
    except msgspec.DecodeError:
        return None


def waiting_text(annotations: Mapping[str, str] | None) -> str:
    """One line on why a job waits; empty when there is nothing to tell."""
    verdict = parse(annotations)
    return "" if verdict is None or verdict.cause in PASSING else str(verdict)
