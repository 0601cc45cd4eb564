"""What keeps a gang from each of the kinds of nodes that it may take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unisono.api.bounds import FOR_WAITING
from unisono.engine.answers import BoolArray
from unisono.engine.plugins.common.node_selectors import match_pod
from unisono.engine.session.choices import REMAKE_SECONDS, Choice, Choices, choice_of
from unisono.engine.verdicts.causes.queue_limits import refused_tasks
from unisono.engine.verdicts.demand import Kind, kinds_of
from unisono.engine.verdicts.draft import Draft, Ladders
from unisono.engine.verdicts.limits import is_whole_cluster
from unisono.engine.verdicts.waiting import Waiting

_MOST_NAMED = 2
"""Resources that are named of one kind of nodes."""


def each_kind(waiting: Waiting) -> tuple[str, Ladders]:
    """``one kind of nodes would be enough: gpu=h100: 2 of 4 pods find room on 3 nodes; ...``; empty: no choice.

    And what to try about limits that stand in the way on some of them.
    """
    job, session = waiting.job, waiting.cycle.session
    choice = choice_of(session, job)
    if choice is None or not (waiting.report.fit or waiting.report.quota is None):
        return "", []
    session.subject = job
    ladders: Ladders = []
    evicts = not FOR_WAITING.isdisjoint(waiting.cycle.config.actions)
    phrases, chosen = [], False
    for _ in choice.each():
        kinds = kinds_of(session, job)
        names = " and ".join(part.kind.name for part in choice.parts.values())
        spared = f" ({_SPARED})" if evicts and choice.made_again else ""
        left_out = any(_left_out(waiting, kind) for kind in kinds)
        chosen |= not left_out
        limit = _limit(waiting, choice)
        if limit is not None and not left_out:
            phrases.append(f"{names}: {limit.verdict.message}{spared}")
            ladders += limit.ladders
        else:
            phrases.append(f"{names}: {_NOT_SELECTED if left_out else _lack(waiting, kinds)}{spared}")
    choice.rest()
    late = ""
    if choice.late:
        late = f"its pods should have been made again for {choice.late} within {REMAKE_SECONDS:g} s, and were not"
    if not chosen:
        text = f"no node of a kind that it names is one that {_SELECTED}"
    elif len(phrases) < 2:
        text = _SPARED if evicts and not choice.suits(choice.trials[0]) else ""
    else:
        text = f"one kind of nodes would be enough: {'; '.join(phrases)}"
    return "; ".join(filter(None, (text, late))), ladders


def _limit(waiting: Waiting, choice: Choice) -> Draft | None:
    """What a limit says of the pods as they are tried now, where one was in the way and is not told already."""
    refusal = choice.refused.get(choice.now)
    if refusal is None or choice.now == choice.told or is_whole_cluster(waiting.cycle.session, refusal):
        return None
    return refused_tasks(Waiting(waiting.tools, waiting.job, replace(waiting.report, quota=refusal)))


_SPARED = "no pod is evicted for it, as its pods would have to be made again"
_SELECTED = "its node selector and node affinity allow"
_NOT_SELECTED = f"there is no such node that {_SELECTED}"


def _left_out(waiting: Waiting, kind: Kind) -> bool:
    """Whether nodes of what is tried now are there, and what pods say of labels themselves leaves out all of them."""
    nodes = _of(waiting, kind)
    if nodes is None or kind.pod_class is None or not nodes.any():
        return False
    return not (nodes & match_pod(kind.pod_class, waiting.cycle.session.nodes)).any()


def _lack(waiting: Waiting, kinds: list[Kind]) -> str:
    """What the kind that is tried now lacks."""
    job, cycle = waiting.job, waiting.cycle
    everywhere = np.ones(cycle.session.nodes.size, dtype=np.bool_)
    masks = [cycle.fits.passing(kind.pod_class) if kind.pod_class else everywhere for kind in kinds]
    every = [(kind, _of(waiting, kind), mask) for kind, mask in zip(kinds, masks, strict=True)]
    own = [(kind, nodes, mask) for kind, nodes, mask in every if nodes is not None]
    if not own or not all(nodes.any() for _, nodes, _ in own):
        return "there is no such node"
    placeable = waiting.tools.shortages.find_room(job, kinds, masks)
    number = int(np.logical_or.reduce([nodes for _, nodes, _ in own]).sum())
    needed = max(job.min_member, 1)
    where = f"on {number} {'node' if number == 1 else 'nodes'}"
    if placeable >= needed:
        return f"{placeable} of {needed} pods find room {where}, but not all of what they need"
    lacking = list(dict.fromkeys(name for kind, nodes, _ in own for name in _short(waiting, kind, nodes)))[:_MOST_NAMED]
    if not lacking and not any((nodes & ~mask).any() for _, nodes, mask in own):
        lacking = [_scarcest(waiting, own[0][0], own[0][1])]  # which those that find room use up
    why = f" (too little {' and '.join(lacking)})" if lacking else " (they refuse the others)"
    return f"{placeable} of {needed} pods find room {where}{why}"


def _of(waiting: Waiting, kind: Kind) -> BoolArray | None:
    """``[N]`` nodes of what is tried now for pods of a kind; None of pods that do not choose."""
    choices = waiting.cycle.session.shared.find(Choices)
    part = choices.part(waiting.job, kind.pod_class) if choices is not None and kind.pod_class is not None else None
    return choices.nodes(part.kind) if choices is not None and part is not None else None


def _short(waiting: Waiting, kind: Kind, mask: BoolArray) -> list[str]:
    """Names of what some of these nodes have too little of for one more pod."""
    session, pod_class = waiting.cycle.session, kind.pod_class
    if pod_class is None:
        return []
    short = np.any((session.nodes.future_idle[pod_class.rows] < pod_class.amounts[:, None])[:, mask], axis=1)
    names = pod_class.resource_names(session.registry)
    scarce = [name for name, lacks in zip(names, short.tolist(), strict=True) if lacks]
    return [name for name in scarce if name != "pods"] or scarce


def _scarcest(waiting: Waiting, kind: Kind, mask: BoolArray) -> str:
    """What these nodes have for the fewest pods."""
    session = waiting.cycle.session
    free = np.maximum(session.nodes.future_idle[kind.rows][:, mask], 0) // kind.amounts[:, None]
    return session.registry.names[int(kind.rows[int(free.sum(axis=1).argmin())])]
