"""Admitted gangs that would not start even in an empty cluster: they keep no room from others at the gate."""

from __future__ import annotations

from collections import Counter

from unisono.cluster.podclass import PodClass
from unisono.engine.candidates.empty_cluster import EmptyCluster
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.session.unfilled_gangs import UnfilledGangs, awaits_places


def note_homeless(cycle: Cycle) -> None:
    """Follow from cycle to cycle which admitted gangs no nodes could take; looked for only where others wait for them.

    Nodes count as empty, as far as labels, taints, state and size go. So a gang that others hold up keeps its promise,
    and one that asks for nodes that are not there, or for more of them than there are, does not.
    """
    book = cycle.session.snapshot.memo.of(UnfilledGangs, UnfilledGangs)
    if not book.homeless and all(report.gate is None for report in cycle.reports.values()):
        return
    empty = EmptyCluster(cycle.session, cycle.hooks, cycle.fits.static)
    by_shape: dict[int, bool] = {}
    found: dict[str, float] = {}
    for job in cycle.session.active:
        if not awaits_places(job.record) or job.ready_count or job.places:
            continue
        homeless = by_shape.get(job.shape) if job.shape else None
        if homeless is None:
            homeless = by_shape[job.shape] = _is_homeless(cycle, empty, job)
        if homeless:
            found[job.key] = book.homeless.get(job.key, cycle.session.now)
    book.homeless = found


def _is_homeless(cycle: Cycle, empty: EmptyCluster, job: JobState) -> bool:
    """Whether fewer of the pods that are there could get a place than the gang needs; never while pods are missing."""
    waiting = job.record.pending.values()
    if len(waiting) < job.min_member or any(task.gated or not task.owned for task in waiting):
        return False
    classes: Counter[PodClass] = Counter(task.pod_class for task in waiting)
    before, cycle.session.subject = cycle.session.subject, job
    try:
        possible = sum(min(number, empty.empty(pod_class).total) for pod_class, number in classes.items())
    finally:
        cycle.session.subject = before
    return possible < job.min_member
