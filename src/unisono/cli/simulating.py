"""What `unisono simulate` prints and shows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unisono import __version__
from unisono.api.messages import counted
from unisono.cli.printing import columns
from unisono.simulator.studies.sweep import Point, ship, simulate, simulate_shipped

if TYPE_CHECKING:
    from unisono.sdk.clients.client import Client
    from unisono.simulator.forecast.forecast import Forecast, Start
    from unisono.simulator.forecast.whatif import Moved, WhatIf
    from unisono.simulator.replay import Replayed
    from unisono.simulator.studies.compare import Change, JobChange


# Simulations, forecasts and their progress as text for people.

# A progress bar on stderr while something long is computed.


@contextmanager
def progress_bar(title: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Shows how much of a total is done, with the time left; nothing where stderr is no terminal, or when quiet.

    Yields:
        a function that is told (done, total); it costs next to nothing to call it often.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None)
        shown = -1

        def tell(done: int, total: int) -> None:
            nonlocal shown
            if done * 1000 // max(total, 1) != shown:
                shown = done * 1000 // max(total, 1)
                progress.update(task, completed=done, total=total)

        yield tell


# Results of simulations as text for people.

_SHOWN = 20


def seconds(value: float | None) -> str:
    """``2d 03h``, ``3h 07m``, ``12m 30s`` or ``8.4 s``."""
    if value is None:
        return "-"
    for unit, size, below, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if value >= size:
            whole, rest = divmod(int(value), size)
            return f"{whole}{unit} {rest // part:02}{below}"
    return f"{value:.1f} s"


def percent(value: float | None) -> str:
    """``93.2 %``."""
    return "-" if value is None else f"{100 * value:.1f} %"


def result_lines(result: Mapping[str, Any]) -> list[str]:
    """A run's most important metrics."""
    jobs = dict(result["jobs"])
    total = jobs.pop("all")
    states = ", ".join(f"{count} {state}" for state, count in jobs.items())
    lines = [
        f"{result.get('workload', 'workload')} on {result.get('cluster', 'cluster')}"
        f" ({result['nodes']} nodes, {result['gpus']} GPUs), seed {result.get('seed', 0)}",
        f"{total} jobs: {states}; {seconds(result['end'])} simulated in {result['cycles']} cycles.",
    ]
    if censored := result.get("censored"):
        lines.append(
            f"Of {censored} jobs the recording does not know the end: their run times are what they state, or usual."
        )
    for each in result.get("hopeless", ()):
        alike = f" and {counted(each['jobs'] - 1, 'job')} like it" if each["jobs"] > 1 else ""
        lines.append(f"Job {each['job']}{alike} would not start on the empty cluster either: {each['why']}.")
    lines.append("")
    rows = [
        (name, *(seconds(result[key].get(each)) for each in ("mean", "p50", "p90", "p99", "max")))
        for key, name in (("jct", "completion time"), ("wait", "first wait"), ("totalWait", "total wait"))
    ]
    lines += columns(("time", "mean", "p50", "p90", "p99", "max"), rows)
    lines += ["", *(f"{name:<18}{value}" for name, value in _figures(result))]
    if result["bySize"]:
        rows = [
            (name, group["jobs"], seconds(group.get("jct")), seconds(group.get("wait")))
            for name, group in result["bySize"].items()
        ]
        lines += ["", *columns(("size", "jobs", "completion", "wait"), rows)]
    return lines


def _figures(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    preemption, fairness = result["preemption"], result["fairness"]
    shown = [
        ("makespan", seconds(result.get("makespan"))),
        ("allocation", f"{percent(result.get('allocation'))}, {percent(result.get('useful'))} of it useful"),
        ("evictions", f"{preemption['evictions']}, {preemption['lostGpuHours']:.1f} GPU hours lost"),
    ]
    if fairness.get("worstRho") is not None:
        text = f"worst rho {fairness['worstRho']:.2f}, {percent(fairness['unfair'])} unfair"
        shown.append(("fairness", text))
    if fairness.get("shareDeviation") is not None:
        shown.append(("shares", f"deviation {percent(fairness['shareDeviation'])}"))
    if result.get("deadlines"):
        shown.append(("deadlines", f"{percent(result['deadlines'].get('met'))} met"))
    if result.get("topology"):
        topology = result["topology"]
        text = f"cost {topology['cost']:.3f}, {topology['ratio']:.2f} times the least"
        shown.append(("topology", text))
    if result.get("cost"):
        shown.append(("cost", f"{result['cost']['total']:.2f}, {result['cost'].get('perJob') or 0:.2f} per job"))
    return shown


def replay_lines(found: Replayed) -> list[str]:
    """What a repetition found."""
    lines = [
        f"{found.cycles} cycles: {found.same_binds} of {found.binds} binds and {found.same_evictions} of "
        f"{found.evictions} evictions came again, {found.more} came only in the repetition."
    ]
    if found.differences:
        rows = [
            (each.cycle, each.what, each.pod, each.recorded or "-", each.repeated or "-")
            for each in found.differences[:_SHOWN]
        ]
        lines += ["", *columns(("cycle", "what", "pod", "recorded", "repeated"), rows)]
    if found.different > _SHOWN:
        lines.append(f"... and {found.different - _SHOWN} more")
    return lines


def change_lines(changes: Sequence[Change], *, everything: bool = False) -> list[str]:
    """Differences of metrics; those that are clear first, all others only if asked for."""
    single = all(change.difference.count < 2 for change in changes)
    shown = [
        change for change in changes if everything or change.difference.clear or (single and change.difference.mean)
    ]
    pairs = max((change.pairs for change in changes), default=0)
    workloads = max((change.difference.count for change in changes), default=0)
    lines = [
        f"{counted(pairs, 'pair')} of runs of {counted(workloads, 'workload')}, each with the same cluster and seed."
    ]
    if pairs > workloads and all(change.distinct == change.difference.count for change in changes):
        lines.append("Seeds change nothing here: further seeds of these workloads are no evidence.")
    if single:
        lines.append(
            "One workload tells nothing of chance, whatever the seeds: run several, such as parts of a recording or "
            "'unisono simulate generate' with --seed 0, 1, 2, ... (three at least, better ten)."
        )
    differ = sum(change.difference.half != 0 for change in changes)
    if not single and (chance := round(0.05 * differ)):
        lines.append(
            f"{counted(differ, 'metric')} differ somewhere: of so many up to {chance} may be listed by chance alone, "
            "where the same policy ran twice. Decide by those that you named before."
        )
    if not shown:
        return [*lines, "No metric clearly differs."]
    rows = [
        (
            change.metric,
            f"{change.before:,.6g}",
            f"{change.after:,.6g}",
            f"{change.difference.mean:+,.4g}",
            "" if change.difference.half is None else f"±{change.difference.half:,.3g}",
            "" if change.relative is None else f"{100 * change.relative:+.1f} %",
        )
        for change in shown
    ]
    return [*lines, "", *columns(("metric", "before", "after", "difference", "95 %", "relative"), rows, empty="")]


def job_change_lines(changes: Sequence[JobChange]) -> list[str]:
    """Jobs that fared otherwise, those that win or lose most first."""
    lines = ["", f"{len(changes)} jobs changed."]
    if changes:
        rows = [
            (change.name, change.queue, f"{change.gpus:g}", _later(change.wait), _later(change.end), change.why)
            for change in changes[:_SHOWN]
        ]
        lines += columns(("job", "queue", "gpus", "starts", "ends", "why"), rows)
    if len(changes) > _SHOWN:
        lines.append(f"... and {len(changes) - _SHOWN} more (-o json lists all)")
    return lines


def _later(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{'+' if value >= 0 else '-'}{seconds(abs(value))}"


# Forecasts as text for people.

_SHOWN_STARTS = 40


def start_lines(found: Forecast, until: float) -> list[str]:
    """When waiting jobs start."""
    if not found.starts:
        return ["No job waits."]
    rows = [
        (each.key, each.queue, f"{each.gpus:g}", when(each), between(each), percent(each.chance))
        for each in found.starts[:_SHOWN_STARTS]
    ]
    lines = columns(("PodGroup", "queue", "gpus", "starts in", "80 %", f"within {seconds(until)}"), rows)
    if len(found.starts) > _SHOWN_STARTS:
        lines.append(f"... and {len(found.starts) - _SHOWN_STARTS} more (-o json lists all)")
    lines += ["", f"By {found.source}."]
    unknown = sum(not each.known for each in found.starts)
    if unknown:
        lines += ["", f"Of {unknown} of these jobs nothing says how long they run (annotation unisono.io/run-seconds)."]
    return lines


def when(start: Start) -> str:
    """The median, or that it comes later, or never."""
    if start.never:
        return "never"
    return "later" if start.median is None else seconds(start.median)


def between(start: Start) -> str:
    """The 80 % interval."""
    low = "later" if start.low is None else seconds(start.low)
    return f"{low} to {'later' if start.high is None else seconds(start.high)}"


def whatif_lines(found: WhatIf) -> list[str]:
    """What a change does."""
    lines = [*found.told, "", f"In the next {seconds(found.until)}, by {found.source}:", ""]
    rows = [
        (
            each.name,
            f"{each.before:,.4g}",
            f"{each.after:,.4g}",
            f"{each.difference.mean:+,.3g}",
            "" if each.difference.half is None else f"±{each.difference.half:,.2g}",
        )
        for each in found.figures
    ]
    lines += columns(("figure", "now", "changed", "difference", "95 %"), rows, empty="")
    rows = [_row(each) for each in found.moved[:_SHOWN_STARTS]]
    if rows:
        lines += ["", *columns(("PodGroup", "starts in", "changed", "moves", ""), rows, empty="")]
    if len(found.moved) > _SHOWN_STARTS:
        lines.append(f"... and {len(found.moved) - _SHOWN_STARTS} more (-o json lists all)")
    if found.evicted:
        lines += ["", f"Evicted by the change: {', '.join(found.evicted[:_SHOWN_STARTS])}"]
    return lines


def _row(each: Moved) -> tuple[str, str, str, str, str]:
    before = "-" if each.before is None else when(each.before)
    after = "-" if each.after is None else when(each.after)
    later = each.later
    if later is None:
        won = each.before is not None and each.before.median is None and each.after is not None
        lost = each.after is not None and each.after.median is None and each.before is not None
        sign = "wins" if won and not lost else "loses" if lost and not won else ""
        return each.key, before, after, "", sign
    move = f"{'+' if later >= 0 else '-'}{seconds(abs(later))}"
    return each.key, before, after, move, "wins" if later < -1 else "loses" if later > 1 else ""


def calibration_lines(result: Mapping[str, Any]) -> list[str]:
    """How good estimated starts are."""
    rows = [
        (
            name,
            each["estimates"],
            percent(each["coverage"]),
            seconds(each["medianError"]),
            seconds(each["medianErrorByLimits"]),
            seconds(each["medianWait"]),
            f"{each['laterRight']} of {each['later']}" if each["later"] else "",
        )
        for name, each in (("all", result), *result["bySize"].items())
    ]
    head = ("jobs", "estimates", "within 80 %", "median error", "by limits", "median wait", "later, rightly")
    return columns(head, rows, empty="")


# Runs of a sweep as pods: of a cluster, or of the control plane of this machine.

_RUNS_PER_POD = 16
"""Runs that a pod of one job makes; the results of a job that has ended are kept when the sweep is stopped."""

THIS_MACHINE = "this-machine"


def client_of(where: str) -> Client:
    """The client of a kubeconfig, of the data directory of a control plane, or of the one that runs on this machine."""
    from unisono.sdk.clients.client import Client

    if where == THIS_MACHINE:
        return Client(quiet=True)
    if Path(where).is_dir():
        return Client(data_dir=where, quiet=True)
    return Client(kubeconfig=where, quiet=True)


def on_pods(
    client: Client, todo: Sequence[Point], *, workers: int, image: str | None, queue: str
) -> Iterator[tuple[int, bytes]]:
    """Run points in so many pods at a time; yields the number of each with its line, job by job.

    On this machine the pods read the files where they are; elsewhere the files travel with the runs.
    """
    from unisono.sdk import map as spread

    local = client.endpoint().local
    for first in range(0, len(todo), workers * _RUNS_PER_POD):
        some = todo[first : first + workers * _RUNS_PER_POD]
        pods = min(workers, len(some))
        if local:
            lines = spread(simulate, some, workers=pods, cpu=1, name="sweep", queue=queue, client=client)
        else:
            from unisono.install.workloads import IMAGE

            pod_image = image or f"{IMAGE}:{__version__}"
            lines = spread(
                simulate_shipped,
                ship(some),
                workers=pods,
                cpu=1,
                name="sweep",
                queue=queue,
                image=pod_image,
                client=client,
            )
        yield from enumerate(lines, start=first)
