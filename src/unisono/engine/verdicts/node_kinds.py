"""What keeps a gang from each of the kinds of nodes that it may take."""

from __future__ import annotations

import numpy as np

from unisono.engine.answers import BoolArray
from unisono.engine.session.choices import Choices, choice_of
from unisono.engine.verdicts.demand import Kind
from unisono.engine.verdicts.waiting import Waiting

_MOST_NAMED = 2
"""Resources that are named of one kind of nodes."""


def each_kind(waiting: Waiting) -> str:
    """``one kind of nodes would be enough: gpu=h100: 2 of 4 pods find room on 3 nodes; ...``; empty: no choice."""
    job, session = waiting.job, waiting.cycle.session
    choice = choice_of(session, job)
    if choice is None or len(choice.trials) < 2 or not (waiting.report.fit or waiting.report.quota is None):
        return ""
    session.subject, present = job, choice.now
    told = []
    for _ in choice.each():
        names = " and ".join(part.kind.name for part in choice.parts.values())
        told.append(f"{names}: {_lack(waiting)}")
    choice.set(present)
    return f"one kind of nodes would be enough: {'; '.join(told)}" if told else ""


def _lack(waiting: Waiting) -> str:
    """What the kind that is tried now lacks."""
    job, cycle = waiting.job, waiting.cycle
    choices = cycle.session.shared.find(Choices)
    kinds = [kind for kind in waiting.kinds if kind.pod_class is not None]
    parts = [(kind, choices.part(job, kind.pod_class)) for kind in kinds] if choices is not None else []
    own = [(kind, choices.nodes(part.kind)) for kind, part in parts if part is not None and choices is not None]
    if not all(mask.any() for _, mask in own) or not own:
        return "there is no such node"
    everywhere = np.ones(cycle.session.nodes.size, dtype=np.bool_)
    masks = [cycle.fits.passing(kind.pod_class) if kind.pod_class else everywhere for kind in waiting.kinds]
    found = waiting.tools.shortages.find_room(job, waiting.kinds, masks)
    number = int(np.logical_or.reduce([mask for _, mask in own]).sum())
    needed = max(job.min_member, 1)
    where = f"on {number} {'node' if number == 1 else 'nodes'}"
    if found >= needed:
        return f"{found} of {needed} pods find room {where}, but not all of what they need"
    lacking = list(dict.fromkeys(name for kind, mask in own for name in _short(waiting, kind, mask)))[:_MOST_NAMED]
    if not lacking and not any((mask & ~passing).any() for (_, mask), passing in zip(own, masks, strict=False)):
        lacking = [_scarcest(waiting, *own[0])]
    why = f" (too little {' and '.join(lacking)})" if lacking else " (they refuse the others)"
    return f"{found} of {needed} pods find room {where}{why}"


def _short(waiting: Waiting, kind: Kind, mask: BoolArray) -> list[str]:
    """Names of what some of these nodes have too little of for one more pod."""
    session, pod_class = waiting.cycle.session, kind.pod_class
    if pod_class is None:
        return []
    short = (session.nodes.future_idle[pod_class.rows] < pod_class.amounts[:, None])[:, mask].any(axis=1)
    names = pod_class.resource_names(session.registry)
    found = [name for name, lacks in zip(names, short.tolist(), strict=True) if lacks]
    return [name for name in found if name != "pods"] or found


def _scarcest(waiting: Waiting, kind: Kind, mask: BoolArray) -> str:
    """What these nodes have for the fewest pods."""
    session = waiting.cycle.session
    free = np.maximum(session.nodes.future_idle[kind.rows][:, mask], 0) // kind.amounts[:, None]
    names = [session.registry.names[row] for row in kind.rows.tolist()]
    return names[int(free.sum(axis=1).argmin())]
