"""The order of causes: from what makes all others meaningless to what is particular."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Final

from msgspec import structs

from unisono.engine.plugins.service_order import end_of_waiting
from unisono.engine.session.choices import choice_of
from unisono.engine.verdict import Cause
from unisono.engine.verdicts.causes import (
    budgets,
    licenses,
    no_domain,
    no_node,
    own,
    queue_limits,
    queue_state,
    required_nowhere,
    whole_cluster,
)
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.node_kinds import each_kind
from unisono.engine.verdicts.waiting import Waiting

CauseOf = Callable[[Waiting], Draft | None]

ORDER: tuple[CauseOf, ...] = (
    # The engine could not decide, or its decision did not stand.
    own.dropped,
    own.made_again,
    own.refused_binds,
    own.failed_plugin,
    own.places_nothing,
    # The object itself, and its pods.
    queue_state.closed,
    own.over_quota,
    own.too_few,
    own.gated,
    own.promised,
    # What no node can hold, or has.
    own.too_much_stated,
    required_nowhere.labels_and_taints,
    required_nowhere.claims,
    own.beyond_every_node,
    queue_state.behind,
    # Limits, first where they are the cluster itself.
    budgets.used_up,
    licenses.too_few,
    whole_cluster.admitted_jobs,
    queue_limits.refused_admission,
    whole_cluster.share,
    queue_limits.refused_tasks,
    # Room.
    no_domain.topology,
    no_node.no_place,
    own.end_of_cycle,
)
"""Each answers None where it is not what the job waits for; the first answer counts."""

_OF_NODES: Final = frozenset((Cause.NODES_FULL, Cause.FILTERS, Cause.TOO_LARGE, Cause.TOPOLOGY))
"""Causes that other nodes might not have."""

_FOR_ROOM: Final = frozenset(
    (Cause.CLUSTER_OVERCOMMITTED, Cause.OVER_CAPABILITY, Cause.OVER_SHARE, Cause.NODES_FULL, Cause.RESERVED)
)
"""Causes that waiting may end."""


def first_cause(waiting: Waiting) -> Draft:
    """Why the job waits; of one that may take several kinds of nodes also what each of them lacks."""
    session = waiting.cycle.session
    session.subject, choice = waiting.job, choice_of(session, waiting.job)
    with choice.as_told() if choice is not None else nullcontext():
        draft = next(draft for cause in ORDER if (draft := cause(waiting)) is not None)
    ends = end_of_waiting(waiting.cycle.hooks.alive(), waiting.job) if draft.verdict.cause in _FOR_ROOM else ""
    if ends:
        message = f"{draft.verdict.message.removesuffix('.')}; {ends}"
        draft = structs.replace(draft, verdict=structs.replace(draft.verdict, message=message))
    kinds_text, ladders = each_kind(waiting) if draft.verdict.cause in _OF_NODES else ("", [])
    if not kinds_text:
        return draft
    message = f"{draft.verdict.message.removesuffix('.')}; {kinds_text}"
    verdict = structs.replace(draft.verdict, message=message)
    more = [ladder for ladder in ladders if ladder not in draft.ladders]
    return structs.replace(draft, verdict=verdict, ladders=[*draft.ladders, *more])
