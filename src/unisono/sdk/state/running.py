"""What is known of pods that run: gangs below their minimum, restarts, silence in their logs, and the last warning."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from unisono.api.kinds import PODS
from unisono.api.times import time_or
from unisono.sdk.state.bound_pods import newest_warnings
from unisono.sdk.state.stragglers import Line, Straggler, straggler

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.api.groups.scheduling import PodGroup
    from unisono.kube.http import HttpClient

# Pods whose logs are asked for their last line, and that are told of.
_MOST_ASKED = 32
_MOST_TOLD = 4
# From so many seconds without a line on silence is worth telling; less where the others of its gang go on.
_QUIET_SECONDS = 300.0
_BEHIND_SECONDS = 60.0
_MINUTE, _HOUR = 60, 3600
# A pause so many times as long as the longest between the last lines is no usual one.
_LINES, _LONG_PAUSES = 20, 20
# Characters of a line that are looked at.
_LONGEST = 1024
# One stopped clearly before the others, which stopped together, where it is so many times as far from them as they are
# from each other; lines of one step are written milliseconds apart.
_CLEARLY, _AT_ONCE_SECONDS = 3, 0.05


@dataclass(frozen=True, slots=True)
class RunningNote:
    """One thing that is worth knowing of a running object.

    Attributes:
        about: ``pod/x`` or ``podgroup/y``.
        text: what is known.
        kind: ``BelowMinimum``, ``Restarts``, ``Silent``, ``Slow`` or ``Warning``.
    """

    about: str
    text: str
    kind: str

    def __str__(self) -> str:
        """For people."""
        return f"{self.about} {self.text}"

    def json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


async def running_notes(
    client: HttpClient, groups: Sequence[PodGroup], pods: Sequence[Pod], now: float
) -> list[RunningNote]:
    """What is known of the pods that run; nothing where none does.

    Args:
        client: the server; what it does not let the user read is left out.
        groups: PodGroups of the object.
        pods: all its pods.
        now: seconds since the epoch, by the server's clock.
    """
    running = [pod for pod in pods if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp]
    if not running:
        return []
    notes = below_minimum(groups, pods) + restarts(running, now)
    asked = running[:_MOST_ASKED]
    lines = {pod.metadata.name: await _last_lines(client, pod) for pod in asked}
    notes += silent([(name, each[-1].time) for name, each in lines.items() if each], now)
    notes += slow(lines, {pod.metadata.name: pod.spec.node_name or "" for pod in asked})
    return notes + await _warnings(client, running, now)


def below_minimum(groups: Sequence[PodGroup], pods: Sequence[Pod]) -> list[RunningNote]:
    """Gangs of which fewer pods run, or have succeeded, than they need (pure)."""
    notes = []
    for group in groups:
        name = group.metadata.name
        mine = [pod for pod in pods if name in (pod.metadata.annotations or {}).values()]
        alive = sum(pod.status.phase in ("Running", "Succeeded") for pod in mine)
        need = group.spec.min_member or 0
        if mine and 0 < alive < need:
            text = f"is below its minimum: {alive} of {need} pods run"
            notes.append(RunningNote(f"podgroup/{name}", text, "BelowMinimum"))
    return notes


def restarts(pods: Sequence[Pod], now: float) -> list[RunningNote]:
    """Pods whose containers were started again, those that did so most often first (pure)."""
    rows = []
    for pod in pods:
        for status in pod.status.container_statuses or ():
            if not status.restart_count:
                continue
            end = status.last_state.terminated if status.last_state is not None else None
            times = "once" if status.restart_count == 1 else f"{status.restart_count} times"
            text = f"was restarted {times}"
            if end is not None:
                code = f"exit code {end.exit_code}" + (f" ({end.reason})" if end.reason else "")
                text += f", the last time {_ago(end.finished_at, now)}after {code}"
            rows.append((-status.restart_count, RunningNote(f"pod/{pod.metadata.name}", text, "Restarts")))
    return [note for _, note in sorted(rows, key=lambda row: (row[0], row[1].about))[:_MOST_TOLD]]


def silent(last: Sequence[tuple[str, float]], now: float) -> list[RunningNote]:
    """Pods that have written nothing for long, or for longer than the others of their job (pure).

    Args:
        last: names of pods, and when each wrote its last line.
        now: seconds since the epoch.
    """
    if not last:
        return []
    newest = max(when for _, when in last)
    notes = []
    for name, when in sorted(last, key=lambda one: one[1]):
        quiet, behind = now - when, newest - when
        if quiet >= _QUIET_SECONDS or (behind >= _BEHIND_SECONDS and quiet >= _BEHIND_SECONDS):
            others = f"; others wrote {duration(now - newest)} ago" if behind >= _BEHIND_SECONDS else ""
            text = f"has written nothing for {duration(quiet)}: it may hang{others}"
            notes.append(RunningNote(f"pod/{name}", text, "Silent"))
    return notes[:_MOST_TOLD]


def slow(lines: Mapping[str, Sequence[Line]], nodes: Mapping[str, str]) -> list[RunningNote]:
    """The process that is slower than the others of its gang, and its node (pure)."""
    slowest = straggler(lines)
    if slowest is None:
        return []
    text = f"is slower than the others: {slowest.seconds:.3g} s a step, theirs take {slowest.others:.3g} s"
    return [RunningNote(f"pod/{slowest.pod}", f"on node {nodes.get(slowest.pod, '')} {text}", "Slow")]


def stall(job: str, lines: Mapping[str, Sequence[float]], now: float) -> str:
    """That all processes of a job have stopped to write, as in a collective that one of them never enters (pure).

    Args:
        job: its name.
        lines: when each of its pods wrote its last lines, in their order; all that the log has where they are few.
        now: seconds since the epoch.

    Returns:
        The stall, with the process that stopped first where its lines end clearly before the others'; empty for none.
    """
    last = sorted((times[-1], pod) for pod, times in lines.items() if times)
    if len(last) < len(lines) or not last:
        return ""
    quiet = now - last[-1][0]
    pauses = [later - one for times in lines.values() for one, later in itertools.pairwise(times)]
    usual = max(pauses, default=_QUIET_SECONDS / _LONG_PAUSES)
    if quiet < min(_QUIET_SECONDS, max(_BEHIND_SECONDS, _LONG_PAUSES * usual)):
        return ""
    if len(last) == 1:
        return f"silent for {duration(quiet)}"
    (first, pod), second = last[0], last[1][0]
    apart = second - first > _CLEARLY * (last[-1][0] - second) + _AT_ONCE_SECONDS
    which = f", {pod.removeprefix(f'{job}-').replace('-', ' ')} stopped first" if apart else ""
    return f"all {len(last)} silent for {duration(quiet)}{which}"


async def stalls(client: HttpClient, jobs: Mapping[str, Sequence[Pod]], now: float) -> dict[str, str]:
    """Which of some jobs (key, and its pods) have stopped to write, and which process stopped first or is slow.

    Args:
        client: the server; logs that it does not let the user read tell nothing.
        jobs: ``NAMESPACE/NAME``, and the pods. Of large jobs, and of many, none is asked for.
        now: seconds since the epoch, by the server's clock.
    """
    stalled: dict[str, str] = {}
    asked = 0
    for key, pods in jobs.items():
        running = [pod for pod in pods if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp]
        asked += len(running)
        if not running or asked > _MOST_ASKED:
            continue
        read = await asyncio.gather(*(_last_lines(client, pod) for pod in running))
        lines = {pod.metadata.name: each for pod, each in zip(running, read, strict=True)}
        name = key.partition("/")[2]
        times = {pod: [line.time for line in each] for pod, each in lines.items()}
        nodes = {pod.metadata.name: pod.spec.node_name or "" for pod in running}
        if text := stall(name, times, now) or _slow_text(name, straggler(lines), nodes):
            stalled[key] = text
    return stalled


def _slow_text(job: str, found: Straggler | None, nodes: Mapping[str, str]) -> str:
    if found is None:
        return ""
    which = found.pod.removeprefix(f"{job}-").replace("-", " ")
    return f"{which} on {nodes[found.pod]} is slow: {found.seconds:.3g} s a step, others {found.others:.3g} s"


def duration(seconds: float) -> str:
    """``45 s``, ``12 min`` or ``3 h``."""
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    return f"{whole // _MINUTE} min" if whole < 2 * _HOUR else f"{whole // _HOUR} h"


def _ago(when: str | None, now: float) -> str:
    moment = time_or(str(when or ""))
    return f"{duration(now - moment)} ago " if moment else ""


async def _last_lines(client: HttpClient, pod: Pod) -> list[Line]:
    """The last lines of the pod's first container, or when it was started; empty where that cannot be read."""
    path = PODS.path(pod.metadata.namespace, pod.metadata.name, "log")
    container = (pod.spec.containers or [])[0].name if pod.spec.containers else ""
    params = {"tailLines": str(_LINES), "timestamps": "true", "container": container}
    status, _, body = await client.request("GET", path, params=params)
    if status >= 300:
        return []
    split = (line.partition(" ") for line in body.decode(errors="replace").splitlines())
    lines = [Line(when, text[:_LONGEST]) for time, _, text in split if (when := time_or(time))]
    started = time_or(str(pod.status.start_time or ""))
    return lines or ([Line(started, "")] if started else [])


async def _warnings(client: HttpClient, pods: Sequence[Pod], now: float) -> list[RunningNote]:
    """The newest warning among the events of the pods."""
    warnings = await newest_warnings(client, pods[0].metadata.namespace or "", {pod.metadata.name for pod in pods})
    newest = max(warnings.values(), key=lambda one: one.seen, default=None)
    if newest is None:
        return []
    text = f"last warning, {_ago(newest.seen, now)}{newest.reason}: {newest.message}"
    return [RunningNote(f"pod/{newest.pod}:", text, "Warning")]
