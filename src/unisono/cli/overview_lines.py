"""An overview as text that fits 80 columns (pure)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from unisono.api.messages import counted
from unisono.api.quantity import QuantityError
from unisono.api.resources import readable, resource_list
from unisono.cli.options import run_async
from unisono.cli.printing import columns, duration_text, visible

if TYPE_CHECKING:
    from pathlib import Path

    from unisono.cli.options import Where
    from unisono.engine.config.model import SchedulerConfig
    from unisono.sdk.overview.components import Component
    from unisono.sdk.overview.overview import CalendarLine, JobLine, MemberLine, Overview
    from unisono.sdk.overview.queues import QueueView
    from unisono.simulator.forecast.live import Followed, LiveObjects


# The state that commands which change nothing decide about: of a live cluster or of files, and its time.


def moment_of(now: str | None) -> float:
    """Seconds since 1970 of the option ``--now``, the present time without it.

    Raises:
        UsageError: it is no time.
    """
    from unisono.api.times import parse_time

    if now is None:
        return time.time()
    try:
        return parse_time(now)
    except ValueError:
        raise click.UsageError(f"--now takes a time such as 2026-11-20T12:00:00Z, not '{now}'.") from None


def objects_of(where: Where, files: tuple[str, ...]) -> LiveObjects:
    """The objects of files, or without any those of the cluster."""
    from unisono.cli.connection import connect
    from unisono.cli.manifests import read
    from unisono.simulator.forecast.live import list_objects, read_objects

    if files:
        return read_objects((manifest.value, manifest.where) for manifest in read(files))

    async def work() -> LiveObjects:
        async with connect(where) as client:
            return await list_objects(client)

    return run_async(work())


def config_of(where: Where, files: tuple[str, ...], config: Path | None) -> SchedulerConfig:
    """The scheduler configuration of a file, else that of the cluster; the default one for the objects of files.

    A configuration of the cluster that cannot be read is told.
    """
    from unisono.cli.connection import connect
    from unisono.engine.config_file.reader import load_config
    from unisono.install.workloads import NAMESPACE
    from unisono.simulator.experiment import config_text
    from unisono.simulator.forecast.live import configuration_in_force

    if config is not None or files:
        return load_config(config_text(config), "default configuration" if config is None else str(config))

    async def work() -> Followed:
        async with connect(where) as client:
            return await configuration_in_force(client, (NAMESPACE,))

    followed = run_async(work())
    if followed.hidden:
        click.echo(
            f"The scheduler's configuration stands in {followed.hidden}, which cannot be read from here: this goes by "
            "the default one. --config FILE gives another.",
            err=True,
        )
    return load_config(followed.text, followed.name)


_MOST_HOLES = 6
_MOST_NODES = 5
_MOST_BOOKINGS = 10
_MOST_TITLES = 3
"""Of jobs that wait for the same, those that are named."""
Style = Callable[..., str]


def overview_lines(
    found: Overview, *, width: int = 80, most: int = 20, colour: bool = False, starts: Mapping[str, str] | None = None
) -> list[str]:
    """Lines for people.

    Args:
        found: the overview.
        width: columns; longer lines end with an ellipsis.
        most: jobs of each list.
        colour: mark what is wrong.
        starts: when jobs that wait may start, in words, by their PodGroups (``namespace/name``).
    """
    style: Style = click.style if colour else lambda text, **_: text
    lines = [*_components(found.components, style), *_indented(not_shown(found))]
    if found.members:
        lines += _members(found.members, style)
    # A hub has none of its own.
    if found.nodes or not (found.members or "nodes" in found.unseen):
        lines += _nodes(found, style)
    lines += [style("Queues", bold=True), *_indented(queue_table(found.queues, wide=True))]
    if found.calendar:
        lines += [style("Calendar", bold=True), *_indented(_calendar(found.calendar))]
    if "podgroups" not in found.unseen:
        lines += _waiting(found.waiting, most, style, starts or {})
        lines += _running(found.running, most, style)
    return [_cut(line, width) for line in lines]


def not_shown(found: Overview, kinds: Collection[str] | None = None) -> list[str]:
    """What the user may not see, of these kinds or of all; nothing for one who sees everything."""
    unseen = [kind for kind in found.unseen if kinds is None or kind in kinds]
    lines = [f"Not shown: {', '.join(unseen)}, which you may not list."] if unseen else []
    if "podgroups" in unseen:
        lines.append("A namespace whose jobs you may list can be named with --namespace.")
    if found.within:
        lines.append(f"Jobs and pods are those of namespace {found.within}: you may not list others.")
    return lines


def queue_table(queues: Sequence[QueueView], *, wide: bool) -> list[str]:
    """Queues with what they use, deserve and may use; ``wide`` adds the columns besides state and weight."""
    headers = ["name", "state", "weight"]
    rows: list[list[object]] = [[view.name, view.state, view.weight] for view in queues]
    if wide:
        # Amounts may be long: what is counted stands before them, where no narrow terminal cuts it off.
        headers += ["waiting", "running", "used", "deserved", "cap"]
        for row, view in zip(rows, queues, strict=True):
            waiting = view.groups.get("Pending", 0) + view.groups.get("Inqueue", 0)
            row.extend([waiting, view.groups.get("Running", 0)] if view.groups else ["-", "-"])
            row += [short_amounts(each) for each in (view.allocated, view.deserved, view.capability)]
    return columns(headers, rows, empty="-")


def short_amounts(amounts: Mapping[str, str]) -> str:
    """``cpu=4,memory=8Gi,gpu=2``; nothing for what is zero."""
    try:
        shown: Mapping[str, str] = readable(resource_list(amounts))
    except QuantityError:
        shown = amounts
    return ",".join(
        f"{name.rpartition('/')[2]}={amount}" for name, amount in shown.items() if name != "pods" and amount != "0"
    )


def _components(found: Sequence[Component], style: Style) -> list[str]:
    lines = [style("Control plane", bold=True)]
    for part in found:
        state = style(part.problem, fg="red") if part.problem else style("ok", fg="green")
        note = f"  ({part.note})" if part.note and not part.problem else ""
        lines.append(f"  {part.name:<14} {state}{note}")
    return lines


def _members(found: Sequence[MemberLine], style: Style) -> list[str]:
    names = sorted({name for each in found for name in each.used}, key=lambda name: ("/" in name, name))
    coming = ["may come"] if any(each.may_come for each in found) else []
    rows = [
        [
            each.name,
            "not ready" if each.problem else "ok",
            each.nodes,
            *(each.used.get(name) for name in names),
            each.pods,
            *([each.may_come] if coming else []),
            each.problem,
        ]
        for each in found
    ]
    ready = sum(not each.problem for each in found)
    why = "why" if any(each.problem for each in found) else ""
    headers = ["name", "state", "nodes", *(name.rpartition("/")[2] for name in names), "pods of jobs", *coming, why]
    title = f"{style('Members', bold=True)}  {ready} of {len(found)} ready"
    rows = [[("-" if cell is None else cell) for cell in row] for row in rows]
    return [title, *_indented(columns(headers, rows, empty=""))]


def _nodes(found: Overview, style: Style) -> list[str]:
    counts = [f"{len(found.ready)} ready"]
    for names, word in ((found.not_ready, "not ready"), (found.cordoned, "cordoned")):
        if names:
            more = f" and {len(names) - _MOST_NODES} more" if len(names) > _MOST_NODES else ""
            counts.append(style(f"{len(names)} {word} ({', '.join(names[:_MOST_NODES])}{more})", fg="red"))
    out = found.quarantined
    if out:
        counts.append(style(f"{len(out)} in quarantine", fg="red"))
    lines = [f"{style('Nodes', bold=True)}  {', '.join(counts)}"]
    for line in out[:_MOST_NODES]:
        why = f": {visible(line.reason)}" if line.reason else ""
        lines.append(f"  {line.name} is in quarantine ({visible(line.by)}){why}")
    if len(out) > _MOST_NODES:
        lines.append(f"  and {len(out) - _MOST_NODES} more: unisono node list")
    rows = [[each.name, each.used, each.total, each.largest, _holes(each.holes)] for each in found.resources]
    if rows:
        lines += _indented(columns(["resource", "used", "of", "largest hole", "free"], rows, empty=""))
    return lines


def _calendar(found: Sequence[CalendarLine]) -> list[str]:
    rows = [
        [line.title, f"until {line.end}" if line.holds else f"from {line.start}", line.text]
        for line in found[:_MOST_BOOKINGS]
    ]
    lines = columns(["what", "when", "what it says"], rows, empty="")
    left = len(found) - len(rows)
    return [*lines, f"and {left} more"] if left else lines


def _holes(holes: Mapping[int, int]) -> str:
    """``8 on 2 nodes, 4 on 1``."""
    shown = [f"{free} on {count}" for free, count in list(holes.items())[:_MOST_HOLES]]
    if not shown:
        return ""
    shown[0] += " node" if next(iter(holes.values())) == 1 else " nodes"
    return ", ".join(shown) + (", ..." if len(holes) > _MOST_HOLES else "")


def _running(found: Sequence[JobLine], most: int, style: Style) -> list[str]:
    lines = [f"{style('Running', bold=True)}  {counted(len(found), 'job')}"]
    lines += _indented(_running_lines(found[:most]))
    if len(found) > most:
        lines.append(f"  and {len(found) - most} more")
    return lines


def _waiting(found: Sequence[JobLine], most: int, style: Style, starts: Mapping[str, str]) -> list[str]:
    """Jobs that wait and why, each by itself; where there are too many for that, those of a queue and lack as one."""
    groups: dict[tuple[Any, ...], list[JobLine]] = {}
    for job in found:
        alone = not job.cause or len(found) <= most
        groups.setdefault((job.namespace, job.title) if alone else (job.queue, job.cause, job.lack), []).append(job)
    lines = [f"{style('Waiting', bold=True)}  {counted(len(found), 'job')}"]
    shown = list(groups.values())[:most]
    for jobs in shown:
        first = jobs[0]
        which = ", ".join(_title(job) for job in jobs[:_MOST_TITLES])
        more = f" and {len(jobs) - _MOST_TITLES} more" if len(jobs) > _MOST_TITLES else ""
        if len(jobs) == 1:
            lines.append(f"  {which} in queue {first.queue}, for {duration_text(first.seconds)}")
        else:
            lines.append(f"  {len(jobs)} jobs in queue {first.queue}, for {duration_text(first.seconds)} at most")
            lines.append(f"    {which}{more}")
        lines.append(f"    {first.waiting or 'the scheduler has not said yet why it waits'}")
        if start := starts.get(f"{first.namespace}/{first.group}"):
            lines.append(f"    {'it' if len(jobs) == 1 else first.title} {start}")
    left = len(found) - sum(map(len, shown))
    return [*lines, f"  and {left} more"] if left else lines


def _running_lines(found: Sequence[JobLine]) -> list[str]:
    rows = [
        [_title(job), job.queue, counted(job.pods, "pod"), duration_text(job.seconds), job.trouble] for job in found
    ]
    headers = ["job", "queue", "running", "age", "trouble" if any(job.trouble for job in found) else ""]
    return columns(headers, rows, empty="") if rows else []


def _title(job: JobLine) -> str:
    return job.title if job.namespace == "default" else f"{job.namespace}/{job.title}"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _cut(line: str, width: int) -> str:
    plain = click.unstyle(line)
    if len(plain) <= width:
        return line
    # Styles end before what is cut off: a coloured line keeps its colour only where it fits.
    return plain[: max(1, width - 3)].rstrip() + "..."
