"""Results of simulations as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unisono.api.words import counted
from unisono.cli.printing import columns

if TYPE_CHECKING:
    from unisono.simulator.recording.replay import Replayed
    from unisono.simulator.studies.compare import Change, JobChange

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
    told = [
        f"{result.get('workload', 'workload')} on {result.get('cluster', 'cluster')}"
        f" ({result['nodes']} nodes, {result['gpus']} GPUs), seed {result.get('seed', 0)}",
        f"{total} jobs: {states}; {seconds(result['end'])} simulated in {result['cycles']} cycles.",
        "",
    ]
    rows = [
        (name, *(seconds(result[key].get(each)) for each in ("mean", "p50", "p90", "p99", "max")))
        for key, name in (("jct", "completion time"), ("wait", "first wait"), ("totalWait", "total wait"))
    ]
    told += columns(("time", "mean", "p50", "p90", "p99", "max"), rows)
    told += ["", *(f"{name:<18}{value}" for name, value in _figures(result))]
    if result["bySize"]:
        rows = [
            (name, group["jobs"], seconds(group.get("jct")), seconds(group.get("wait")))
            for name, group in result["bySize"].items()
        ]
        told += ["", *columns(("size", "jobs", "completion", "wait"), rows)]
    return told


def _figures(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    preemption, fairness = result["preemption"], result["fairness"]
    shown = [
        ("makespan", seconds(result.get("makespan"))),
        ("allocation", f"{percent(result.get('allocation'))}, {percent(result.get('useful'))} of it useful"),
        ("evictions", f"{preemption['evictions']}, {preemption['lostGpuHours']:.1f} GPU hours lost"),
    ]
    if fairness.get("worstRho") is not None:
        told = f"worst rho {fairness['worstRho']:.2f}, {percent(fairness['unfair'])} unfair"
        shown.append(("fairness", told))
    if fairness.get("shareDeviation") is not None:
        shown.append(("shares", f"deviation {percent(fairness['shareDeviation'])}"))
    if result.get("deadlines"):
        shown.append(("deadlines", f"{percent(result['deadlines'].get('met'))} met"))
    if result.get("topology"):
        topology = result["topology"]
        told = f"cost {topology['cost']:.3f}, {topology['ratio']:.2f} times the least"
        shown.append(("topology", told))
    if result.get("cost"):
        shown.append(("cost", f"{result['cost']['total']:.2f}, {result['cost'].get('perJob') or 0:.2f} per job"))
    return shown


def replay_lines(found: Replayed) -> list[str]:
    """What a repetition found."""
    told = [
        f"{found.cycles} cycles: {found.same_binds} of {found.binds} binds and {found.same_evictions} of "
        f"{found.evictions} evictions came again, {found.more} came only in the repetition."
    ]
    if found.differences:
        rows = [
            (each.cycle, each.what, each.pod, each.recorded or "-", each.repeated or "-")
            for each in found.differences[:_SHOWN]
        ]
        told += ["", *columns(("cycle", "what", "pod", "recorded", "repeated"), rows)]
    if found.different > _SHOWN:
        told.append(f"... and {found.different - _SHOWN} more")
    return told


def change_lines(changes: Sequence[Change], *, everything: bool = False) -> list[str]:
    """Differences of metrics; those that are clear first, all others only if asked for."""
    single = all(change.difference.count < 2 for change in changes)
    shown = [
        change for change in changes if everything or change.difference.clear or (single and change.difference.mean)
    ]
    pairs = max((change.difference.count for change in changes), default=0)
    told = [f"{counted(pairs, 'pair')} of runs with the same workload, cluster and seed."]
    if single:
        told.append("One pair tells nothing of chance: run several seeds ('unisono simulate sweep --seeds 0-9').")
    if not shown:
        return [*told, "No metric clearly differs."]
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
    return [*told, "", *columns(("metric", "before", "after", "difference", "95 %", "relative"), rows, empty="")]


def job_change_lines(changes: Sequence[JobChange]) -> list[str]:
    """Jobs that fared otherwise, those that win or lose most first."""
    told = ["", f"{len(changes)} jobs changed."]
    if changes:
        rows = [
            (change.name, change.queue, f"{change.gpus:g}", _later(change.wait), _later(change.end), change.why)
            for change in changes[:_SHOWN]
        ]
        told += columns(("job", "queue", "gpus", "starts", "ends", "why"), rows)
    if len(changes) > _SHOWN:
        told.append(f"... and {len(changes) - _SHOWN} more (-o json lists all)")
    return told


def _later(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{'+' if value >= 0 else '-'}{seconds(abs(value))}"
