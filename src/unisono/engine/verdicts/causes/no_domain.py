"""The cluster could hold the gang, but no domain that its topology allows."""

from __future__ import annotations

import numpy as np

from unisono.api.resources import by_importance
from unisono.engine.changes import listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.placement.domain_advice import Advice
from unisono.engine.placement.waiting_line import advice_of
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Cause, Holder
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.holders import holders_on
from unisono.engine.verdicts.waiting import Waiting

_MOST_NAMED = 3


def domain_text(cycle: Cycle, job: JobState, advice: Advice) -> tuple[str, tuple[Holder, ...]]:
    """``HyperNode rack-a would hold it, but default/hog uses cpu 8 there``, and the holders."""
    if advice.lost:
        return f"HyperNode {advice.domain} would hold it, but {_away(cycle, advice.lost)}", ()
    if not advice.domain:
        return (
            "no allowed domain would hold it even if the nodes that its pods may use were empty"
            if "fit" in advice.message
            else ""
        ), ()
    there = np.isin(np.arange(cycle.session.nodes.size), advice.nodes)
    text, holders, _ = holders_on(cycle, job, _scarcest(cycle, advice), there) or ("", (), [])
    return (f"HyperNode {advice.domain} would hold it, but {text} there" if text else ""), holders


def _scarcest(cycle: Cycle, advice: Advice) -> str:
    """The resource of which the nodes that have to be empty have least for a pod."""
    nodes, pod_class = cycle.session.nodes, advice.task.pod_class
    names = sorted(pod_class.requests, key=by_importance)
    if not names or not advice.nodes:
        return names[0] if names else "pods"
    rows = [cycle.session.registry.requested(name) for name in names]
    idle = np.maximum(nodes.idle[rows][:, list(advice.nodes)], 0)
    parts = (idle / np.array([[pod_class.requests[name]] for name in names])).min(axis=1)
    return names[int(parts.argmin())]


def _away(cycle: Cycle, columns: tuple[int, ...]) -> str:
    """``n-1 is cordoned, and n-2 and n-3 are not ready``."""
    table = cycle.session.snapshot.nodes
    unready = tuple(table.names[at] for at in columns if not table.ready[at])
    cordoned = tuple(table.names[at] for at in columns if table.ready[at])
    parts = [(cordoned, "cordoned"), (unready, "not ready")]
    return ", and ".join(
        f"{listed(names)} {'is' if len(names) == 1 else 'are'} {what}" for names, what in parts if names
    )


def topology(waiting: Waiting) -> Draft | None:
    """Which domain comes closest, and who uses it."""
    job, cycle = waiting.job, waiting.cycle
    advice = advice_of(cycle).get(job.key)
    if advice is None:
        return None
    placeable = job.ready_count + min(advice.holds, advice.needed)
    text, holders = domain_text(cycle, job, advice)
    refused = _refused(waiting, advice) if not advice.domain else ""
    message = "; ".join(filter(None, (advice.message, text)))
    verdict = waiting.verdict(
        Cause.TOPOLOGY,
        f"{message}.{refused}" if refused else message,
        need={"pods": advice.needed},
        have={"pods": advice.holds},
        tasks_placeable=placeable,
        holders=holders,
        task=advice.task.key,
    )
    ladders = candidates.for_topology(cycle, job, placeable, advice.lost)
    if refused:
        ladders = [*candidates.unblocked(cycle, advice.task, max(advice.needed - advice.holds, 1)), *ladders]
    return Draft(verdict, ladders, last=advice.suggestion)


def _refused(waiting: Waiting, advice: Advice) -> str:
    """A sentence about what keeps the pods off nodes of its domains that might hold them."""
    fit = waiting.cycle.fits.errors(advice.task.pod_class)
    return waiting.tools.filters.text(advice.task.pod_class, fit, advice.task.namespace)
