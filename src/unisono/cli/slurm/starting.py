"""When a batch may start and when it is to: ``sbatch`` with ``--test-only``, ``--begin``, ``--hold`` and ``--wait``."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from unisono.api.times import parse_duration
from unisono.cli.explaining import LOOK_AHEAD, QUICK_FUTURES, QUICK_SECONDS, start_text, starts_of
from unisono.cli.options import run_async
from unisono.cli.slurm.script import BadScript

if TYPE_CHECKING:
    from unisono.cli.options import Where
    from unisono.sdk.follow.events import Target
    from unisono.sdk.jobs.program import Program
    from unisono.sdk.overview.overview import JobLine

# How long a scheduler may need for its first look at a new job.
_LOOKS, _LOOK_SECONDS = 30, 0.1


def told_starts(where: Where, created: Sequence[Target]) -> list[str]:
    """A line for jobs that were just submitted and wait: when the first and the last of them may start.

    Nothing where they run, or the caller may not see what a forecast goes by.
    """
    from unisono.errors import UnisonoError

    try:
        waiting = run_async(_waiting(where, created))
        starts = [start for key, start in starts_of(where, waiting).items() if key in waiting]
    except UnisonoError:
        return []
    if not starts:
        return []
    starts.sort(key=lambda start: float("inf") if start.median is None else start.median)
    first, last = starts[0], starts[-1]
    if len(created) == 1:
        why = f"unisono explain job/{created[0].name}"
        return [f"It waits, and {start_text(first)}; {why} says why."]
    return [f"{len(starts)} of them wait: the first {start_text(first)}, the last {start_text(last)}."]


async def _waiting(where: Where, created: Sequence[Target]) -> Mapping[str, JobLine]:
    """Those that wait once a scheduler has looked at all of them, by their PodGroups."""
    from unisono.cli.connection import connect, namespace_of
    from unisono.sdk.overview.overview import read_overview

    names = {(target.namespace, target.name) for target in created}
    async with connect(where) as client:
        for _ in range(_LOOKS):
            seen = await read_overview(client, namespace_of(where))
            waiting_jobs = {
                f"{job.namespace}/{job.group}": job for job in seen.waiting if (job.namespace, job.name) in names
            }
            running = sum((job.namespace, job.name) in names for job in seen.running)
            if len(waiting_jobs) + running >= len(names) and all(job.waiting for job in waiting_jobs.values()):
                break
            await asyncio.sleep(_LOOK_SECONDS)
        return waiting_jobs


def would_start(where: Where, program: Program) -> str:
    """When a job that is not submitted would start, as ``sbatch --test-only`` says it."""
    from unisono.cli.overview_lines import config_of, objects_of
    from unisono.cli.running.place import is_cluster
    from unisono.cli.running.submitting import of_program
    from unisono.simulator.forecast.forecast import Budget
    from unisono.simulator.forecast.whatif import apply_changes, what_if

    manifest = of_program(program, local=not is_cluster(where))
    value = manifest.value
    if where.namespace:
        value["metadata"]["namespace"] = where.namespace
    config, objects, now = config_of(where, (), None), objects_of(where, ()), time.time()
    changed = apply_changes(objects, [(value, manifest.where)], now)
    outcome = what_if(
        objects,
        config,
        now,
        changed,
        futures=QUICK_FUTURES,
        until=parse_duration(LOOK_AHEAD),
        budget=Budget.of(QUICK_SECONDS, time.process_time),
    )
    own = next((each.after for each in outcome.moved if each.before is None and each.after is not None), None)
    name = value["metadata"]["name"]
    return f"job/{name} {start_text(own)}" if own is not None else f"job/{name}: nothing is known of its start"


_UNITS = {"second": 1, "sec": 1, "": 1, "minute": 60, "min": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_FROM_NOW = re.compile(r"now(?:\+(\d{1,9})([a-z]*?)s?)?")
_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_WORDS = {"midnight": (0, 0, 0), "noon": (12, 0, 0), "teatime": (16, 0, 0), "fika": (15, 0, 0), "elevenses": (11, 0, 0)}


def begin_at(text: str, now: float) -> float:
    """When ``--begin`` means, in seconds since 1970; times of day are those of this machine.

    Raises:
        BadScript: it is no such time.
    """
    word, here = text.strip().lower(), datetime.fromtimestamp(now).astimezone()
    today = here.replace(hour=0, minute=0, second=0, microsecond=0)
    if (match := _FROM_NOW.fullmatch(word)) is not None and (match[2] or "") in _UNITS:
        return now + int(match[1] or 0) * _UNITS[match[2] or ""]
    if word in ("today", "tomorrow"):
        return (here if word == "today" else today + timedelta(days=1)).timestamp()
    clock = _WORDS.get(word)
    if (match := _OF_DAY.fullmatch(word)) is not None:
        hour, minute, second = (int(each or 0) for each in match.groups())
        clock = (hour, minute, second) if hour < 24 and minute < 60 and second < 60 else None
    if clock is not None:
        at = today.replace(hour=clock[0], minute=clock[1], second=clock[2])
        return (at if at.timestamp() > now else at + timedelta(days=1)).timestamp()
    try:
        return datetime.fromisoformat(text.strip().upper()).astimezone().timestamp()
    except ValueError:
        raise BadScript(f"--begin={text}: give now+1hour, 16:00 or 2026-01-31T16:00.") from None


async def until(moment: float) -> None:
    """Sleep until then by the wall clock, which may be set meanwhile."""
    while (left := moment - time.time()) > 0:  # noqa: ASYNC110 - the wall clock sends no event
        await asyncio.sleep(min(left, 30.0))


async def hold(where: Where, created: Sequence[Target]) -> None:
    """Stop jobs that were just submitted until they are released."""
    from unisono.cli.connection import connect
    from unisono.sdk.jobs.control import send_action

    async with connect(where) as client:
        for target in created:
            await send_action(client, target.kind, target.namespace, target.name, "AbortJob")


async def exit_code(where: Where, created: Sequence[Target]) -> int:
    """Wait until all have ended; the largest of their exit codes, as of ``sbatch --wait``."""
    from unisono.api.conditions import SUCCEEDED
    from unisono.cli.connection import connect
    from unisono.sdk.follow.events import Observed
    from unisono.sdk.follow.following import follow

    codes = dict.fromkeys(created, 1)
    async with connect(where) as client:
        async for event in follow(client, list(created), until=lambda view: view.ended):
            if isinstance(event, Observed) and event.observation.view.ended:
                view = event.observation.view
                failed = [end.exit_code or 1 for end in view.ends if end.phase == "Failed"]
                codes[event.target] = 0 if view.phase == SUCCEEDED else max(failed, default=1)
    return max(codes.values(), default=0)
