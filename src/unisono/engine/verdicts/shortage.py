"""What the cluster lacks for a gang, in the order in which causes make the later ones meaningless.

One pod larger than any node; devices that a node has lost; nodes out of sight; a gang larger than the cluster; holes
that are too small; resources in use, by the names of those who hold them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from msgspec import structs

from unisono.api.annotations import GANG_PARTS
from unisono.api.gang_parts import decode_parts
from unisono.api.messages import counted
from unisono.api.resources import amounts_text, by_importance, pod_requests, readable
from unisono.cluster.resources import Matrix
from unisono.engine.answers import BoolArray
from unisono.engine.changes import listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.session.once import once
from unisono.engine.verdict import Holder
from unisono.engine.verdicts.demand import Kind, kinds_of
from unisono.engine.verdicts.holders import holders_text
from unisono.engine.verdicts.kept_pods import not_evicted
from unisono.engine.verdicts.lines import place_in_line
from unisono.engine.verdicts.missing_resources import too_large
from unisono.engine.verdicts.nodes_away import out_of_sight

_MOST_SHOWN = 2
_PODS = "pods"


def asked_text(need: Mapping[str, int], names: Sequence[str]) -> str:
    """``cpu 8, memory 32Gi is asked for``."""
    if list(names) == [_PODS]:
        return f"places for {counted(need[_PODS], 'pod')} are asked for"
    return f"{amounts_text({name: need[name] for name in names})} is asked for"


def has_text(there: Mapping[str, int], names: Sequence[str]) -> str:
    """``cpu 8, memory 32Gi``."""
    return str(there[_PODS]) if list(names) == [_PODS] else amounts_text({name: there[name] for name in names}, "down")


def free_text(free: Mapping[str, int], there: Mapping[str, int], names: Sequence[str]) -> str:
    """``cpu 2 of 8, memory 4Gi of 32Gi is free``."""
    if list(names) == [_PODS]:
        return f"{free[_PODS]} of the {there[_PODS]} that nodes with room offer are free"
    available = readable({name: free[name] for name in names}, "down")
    whole = readable({name: there[name] for name in names}, "down")
    return ", ".join(f"{name} {available[name]} of {whole[name]}" for name in available) + " is free"


def largest_hole(kinds: list[Kind], most: Mapping[str, int], free: Mapping[str, int], names: Iterable[str]) -> str:
    """The largest hole, where one pod asks for more than that; ``most``: what one node has free at most."""
    for name in names:
        large = [kind for kind in kinds if kind.requests.get(name, 0) > most[name]]
        if large and free[name]:
            asked = amounts_text({name: large[0].requests[name]})
            hole = f", at most {readable({name: most[name]}, 'down')[name]} on one node"
            alone = len(kinds) == 1 and kinds[0].count == 1
            return hole if alone else f"{hole}; {large[0].who} asks for {asked}"
    return ""


def never_together(kinds: list[Kind], idle: Matrix, nodes: Sequence[str], short: Mapping[str, int]) -> str:
    """That no node has all free together that a pod asks for: what the nodes have that come nearest to it.

    Args:
        kinds: what the pods ask for.
        idle: ``[R, N]`` what is free, 0 on nodes that they cannot use.
        nodes: their names.
        short: resources of which some node has too little, with their rows.
    """
    for kind in kinds:
        parts = (idle[kind.rows] / kind.amounts[:, None]).clip(max=1)
        if len(short) < 2 or (parts.min(axis=0) >= 1).any() or (parts.max(axis=1) < 1).any():
            continue
        nearest = np.argsort(-parts.sum(axis=0), kind="stable")[:_MOST_SHOWN].tolist()
        node_texts = [
            f"{nodes[at]} has {amounts_text({name: int(idle[row, at]) for name, row in short.items()}, 'down')}"
            for at in nearest
        ]
        return f", but not together on one node ({'; '.join(node_texts)})"
    return ""


_MOST_HELD = 2
"""Resources whose holders are named."""


@dataclass(frozen=True, slots=True)
class Lack:
    """What one gang lacks.

    Attributes:
        message: the sentence.
        free: what usable nodes have free of what is short.
        holders: who holds it, largest first.
        too_large: one pod, or the gang, would not fit even if the cluster were empty.
        pod_too_large: one pod would not.
        at_most: what a pod that is larger than any node may ask for to fit; empty where none is.
    """

    message: str
    free: dict[str, int]
    holders: tuple[Holder, ...] = ()
    too_large: bool = False
    pod_too_large: bool = False
    at_most: Mapping[str, int] = field(default_factory=dict)


@once
def _unhealthy(cycle: Cycle) -> dict[str, list[tuple[int, int, int]]]:
    """Columns, allocatable amounts and capacities of nodes with unhealthy devices, by resource name."""
    by_resource: dict[str, list[tuple[int, int, int]]] = {}
    for column, facts in enumerate(cycle.session.snapshot.nodes.facts):
        for name, capacity in facts.unhealthy.items():
            by_resource.setdefault(name, []).append((column, facts.allocatable.get(name, 0), capacity))
    return by_resource


class Shortages:
    """Answers for the jobs of one cycle."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle

    def lack(
        self,
        job: JobState,
        need: Mapping[str, int],
        have: Mapping[str, int],
        allowed: BoolArray | None,
        rivals: list[Kind] | None = None,
    ) -> Lack:
        """What keeps a gang waiting that asks for ``need`` in all.

        Args:
            job: waits.
            need: what is missing, by resource name.
            have: what is promised to others, for gates that count promises.
            allowed: nodes that its pods may use; None: not asked, because its pods may not exist yet.
            rivals: only these of its pods, because the others may use other nodes: those are taken to run; None: all.
        """
        lack, held = self._lack(job, need, have, allowed, rivals)
        holdings = [holders_text(self.cycle, job, name, nodes=allowed) for name in held[:_MOST_HELD]]
        if not holdings:
            return lack
        holding: dict[tuple[str, str], Holder] = {}
        for one in (one for _, holders, _ in holdings for one in holders):
            same = holding.setdefault((one.kind, one.name), one)
            holding[one.kind, one.name] = structs.replace(same, amounts={**same.amounts, **one.amounts})
        firsts = {holders[0].name if holders else "": text for text, holders, _ in reversed(holdings)}
        kept = not_evicted(self.cycle, job, holdings[0][2], held[0])
        more = (*reversed(firsts.values()), kept, place_in_line(self.cycle, job))
        message = "; ".join(filter(None, (lack.message, *more)))
        return replace(lack, message=message, holders=tuple(holding.values()))

    def _lack(
        self,
        job: JobState,
        need: Mapping[str, int],
        have: Mapping[str, int],
        allowed: BoolArray | None,
        rivals: list[Kind] | None,
    ) -> tuple[Lack, tuple[str, ...]]:
        """Without holders; and the resources whose holders keep the gang waiting, if any do."""
        nodes, registry = self.cycle.session.nodes, self.cycle.session.registry
        kinds = every = kinds_of(self.cycle.session, job)
        needed, ready = max(job.min_member, 1), job.ready_count
        if rivals is not None and len(rivals) < len(every):
            others = sum(kind.count for kind in every) - sum(kind.count for kind in rivals)
            kinds, needed, ready = rivals, max(needed - ready - others, 1), 0
        names = sorted((name for name in need if registry.find(name) is not None), key=by_importance)
        if not nodes.size or not names:
            text = "the cluster has no nodes" if not nodes.size else "no node offers it"
            return Lack(f"{text}; {amounts_text(need)} is asked for", dict.fromkeys(need, 0)), ()
        rows = [registry.requested(name) for name in names]
        usable = nodes.table.ready & ~nodes.table.unschedulable if allowed is None else allowed
        free = _sums(names, np.maximum(nodes.idle[rows], 0) * usable)
        there = _sums(names, nodes.allocatable[rows] * usable)
        sums = nodes.table.sums()
        for name, row in zip(names, rows, strict=True):
            if row in registry.floating:  # nodes pretend to have plenty of it
                there[name] = int(sums.usable[row])
                free[name] = max(there[name] - int(sums.used[row]), 0)
        if sum(kind.count for kind in kinds) == needed - ready:  # a refusal may speak of some pods only
            need = {name: _all_of(kinds, name) for name in need}
        lost = self.lost_devices(kinds, names)
        if not lost:
            large = too_large(self.cycle, kinds, np.ones(nodes.size, np.bool_) if allowed is None else allowed)
            if large is not None:
                most = _of(free, names) | dict(large[1])
                return Lack(large[0], most, too_large=True, pod_too_large=True, at_most=large[1]), ()
        one = "" if kinds or lost else _one_too_large(self.cycle, job, need, names)
        if one:
            return Lack(one, _of(free, names), too_large=True, pod_too_large=True), ()
        parts = [*lost, *out_of_sight(self.cycle, rows)]
        lacking = [name for name in names if free[name] < need[name]]
        most = _sums(names, (np.maximum(nodes.idle[rows], 0) * usable).max(axis=1, keepdims=True))
        holes = [name for name in names if any(kind.requests.get(name, 0) > most[name] for kind in kinds)]
        short, by_row = lacking or holes or names, dict(zip(names, rows, strict=True))
        empty = min(_most_placed(kinds, nodes.allocatable[:, usable]), needed)
        if kinds and empty < needed - ready and usable.any():
            fits = _fits(empty + ready, needed)
            parts.append(f"{fits}: {asked_text(need, short)}, and they have {has_text(there, short)}")
            parts += self._roles(kinds, nodes.allocatable[:, usable], short)
            return Lack("; ".join(parts), _of(free, short), too_large=True), ()
        idle = np.maximum(nodes.idle, 0) * usable
        hole = largest_hole(kinds, most, free, short) or never_together(kinds, idle, nodes.table.names, by_row)
        parts.append(f"{asked_text(need, short)}, and {free_text(free, there, short)}{hole}")
        if any(need[name] > there[name] for name in short):
            return Lack("; ".join(parts), _of(free, short), too_large=True), ()
        more = self._also_short(kinds, names, usable)
        parts += more.values()
        now = min(_most_placed(kinds, nodes.idle[:, usable]), needed)
        if needed > 1 and kinds and 0 < now + ready < needed:
            parts.append(f"{now + ready} of {needed} pods find room")
        if not lacking and not holes and any(have.get(name, 0) for name in short):
            promised = amounts_text({name: have.get(name, 0) for name in short})
            parts.append(f"{promised} is promised to jobs that were admitted before it")
        held = (short[0], *(name for name in lacking if name != short[0]), *more)
        return Lack("; ".join(parts), _of(free, short)), held

    def _also_short(self, kinds: list[Kind], names: Iterable[str], usable: BoolArray) -> dict[str, str]:
        """What is short beside ``names``, of which the gate says nothing, in words."""
        nodes, registry, asked = self.cycle.session.nodes, self.cycle.session.registry, Counter[str]()
        for kind in kinds:
            asked.update({name: amount * kind.count for name, amount in kind.requests.items()})
        texts = {}
        for name in sorted(asked.keys() - set(names), key=by_importance):
            row = registry.find(name)
            free = int((np.maximum(nodes.idle[row], 0) * usable).sum()) if row is not None else asked[name]
            if row is not None and free < asked[name]:
                there = {name: int((nodes.allocatable[row] * usable).sum())}
                texts[name] = f"{asked_text(asked, [name])}, and {free_text({name: free}, there, [name])}"
        return texts

    def find_room(self, job: JobState, kinds: list[Kind], masks: list[BoolArray]) -> int:
        """How many of a gang's pods have a place or would find one now, at most its minimum.

        Args:
            job: waits.
            kinds: what its pods ask for.
            masks: ``[N]`` for each of them, the nodes that it may use.
        """
        placed = _most_placed(kinds, self.cycle.session.nodes.idle, masks)
        return min(placed + job.ready_count, max(job.min_member, 1))

    def lost_devices(self, kinds: list[Kind], names: Iterable[str]) -> list[str]:
        """Nodes on which a pod would fit if all their devices were healthy."""
        unhealthy, table = _unhealthy(self.cycle), self.cycle.session.snapshot.nodes
        parts = []
        for name in names:
            least = min((kind.requests[name] for kind in kinds if name in kind.requests), default=1)
            nodes = [one for one in unhealthy.get(name, ()) if one[2] >= least]
            if not nodes:
                continue
            _, allocatable, capacity = nodes[0]
            which = listed(tuple(table.names[column] for column, _, _ in nodes))
            amounts = readable({name: allocatable}, "down")[name], readable({name: capacity}, "down")[name]
            on = "node" if len(nodes) == 1 else "each of nodes" if len({one[1:] for one in nodes}) == 1 else "nodes"
            why = "is its device plug-in down?" if not allocatable else "the others are unhealthy"
            some = f"{amounts[0]} of {amounts[1]}"
            parts.append(f"only {some} {name} can be used on {on} {which} ({why})")
        return parts

    def _roles(self, kinds: list[Kind], amounts: Matrix, names: Iterable[str]) -> list[str]:
        """``2 of 3 pods of role worker (cpu 8 each)``: the roles of which some pods fit and others do not."""
        if len(kinds) < 2:
            return []
        orders = ((_placed(order, amounts), order) for order in (kinds, kinds[::-1]))
        placed, order = max(orders, key=lambda one: sum(one[0]))
        sentences = []
        for number, kind in zip(placed, order, strict=True):
            each = {name: kind.requests[name] for name in names if name in kind.requests}
            if number < kind.count and each:
                pods = f"{counted(kind.count, 'pod')} of role {kind.role}" if kind.role else kind.who
                sentences.append(f"{number} of {pods} fit ({amounts_text(each)} each)")
        return sentences


def _most_placed(kinds: list[Kind], amounts: Matrix, masks: list[BoolArray] | None = None) -> int:
    """How many pods find room together, whichever kind comes first."""
    ways = (1, -1) if len(kinds) > 1 else (1,)
    totals = (sum(_placed(kinds[::way], amounts, masks[::way] if masks is not None else None)) for way in ways)
    return max(totals, default=0)


def _placed(kinds: list[Kind], amounts: Matrix, masks: list[BoolArray] | None = None) -> list[int]:
    """How many pods of each kind find room one after the other, on the fullest nodes first, where ``masks`` let it."""
    free, placed = np.maximum(amounts, 0), []
    for at, kind in enumerate(kinds):
        room = (free[kind.rows] // kind.amounts[:, None]).min(axis=0)
        if masks is not None:
            room = np.where(masks[at], room, 0)
        if kind.port:
            room = np.minimum(room, 1)
        order = np.argsort(room, kind="stable")
        before = np.cumsum(np.minimum(room[order], kind.count)) - np.minimum(room[order], kind.count)
        taken = np.zeros_like(room)
        taken[order] = np.clip(kind.count - before, 0, np.minimum(room[order], kind.count))
        free[kind.rows] -= kind.amounts[:, None] * taken
        placed.append(int(taken.sum()))
    return placed


def _fits(number: int, wanted: int) -> str:
    who = f"only {number} of {wanted} pods fit{'s' if number == 1 else ''}" if number else f"none of {wanted} pods fits"
    return f"{who if wanted > 1 else 'the pod does not fit'} on the usable nodes even if they were empty"


def _one_too_large(cycle: Cycle, job: JobState, need: Mapping[str, int], names: list[str]) -> str:
    """One pod of a gang whose pods are not known yet asks for more than any node has, however they share it."""
    nodes, registry = cycle.session.nodes, cycle.session.registry
    if job.size or job.min_member < 1:
        return ""
    for name in names:
        largest = int(nodes.allocatable[registry.requested(name)].max())
        if 0 < largest * job.min_member < need[name]:
            asked = amounts_text({name: need[name]})
            most = amounts_text({name: largest}, "down")
            return f"one of {job.min_member} pods is too large: they ask for {asked}, and the largest node has {most}"
    return ""


def _all_of(kinds: Iterable[Kind], name: str) -> int:
    """What these pods ask for together."""
    return sum(kind.requests.get(name, int(name == _PODS)) * kind.count for kind in kinds)


def _sums(names: list[str], amounts: Matrix) -> dict[str, int]:
    return dict(zip(names, amounts.sum(axis=1).tolist(), strict=True))


def _of(amounts: Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
    return {name: int(amounts[name]) for name in names}


def contradiction(
    cycle: Cycle, job: JobState, kinds: list[Kind], need: Mapping[str, int]
) -> tuple[str, dict[str, int]] | None:
    """That minResources ask for more than all pods of a whole gang do, and what they should be; None where not.

    Pods that come later count as well. What a controller states that does not tell of its pods is for it to know.
    """
    registry, record = cycle.session.registry, job.record
    parts = record.annotations.get(GANG_PARTS, "")
    if not record.min_amounts or job.ready_count or (record.owned and not parts):
        return None
    stated = [name for name in need if name in record.min_amounts]
    size = job.size
    if size >= max(job.min_member, 1):
        rows = {name: row for name in stated if (row := registry.find(name)) is not None}
        asked = {name: int(record.request[row]) for name, row in rows.items() if row < len(record.request)}
        asked |= {"pods": size} if "pods" in stated else {}
    else:
        size = sum(kind.count for kind in kinds)
        if size < max(job.min_member, 1) or any(kind.pod_class is None for kind in kinds):
            return None
        asked = {name: _all_of(kinds, name) + record.licenses.get(name, 0) for name in stated}
    for part in decode_parts(parts):
        if part.later:
            requests = pod_requests(part.spec) | {"pods": 1}
            asked = {name: amount + requests.get(name, 0) * part.later for name, amount in asked.items()}
    over = [name for name in asked if record.min_amounts[name] > asked[name]]
    if not over:
        return None
    right = amounts_text(_of(asked, over))
    stated_text = amounts_text({name: record.min_amounts[name] for name in over})
    text = f"minResources ({stated_text}) ask for more than all its {counted(size, 'pod')} do ({right})"
    return text, _of(asked, over)
