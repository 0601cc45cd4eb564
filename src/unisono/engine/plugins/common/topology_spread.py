"""Topology spread constraints over domains (semantics of kube-scheduler 1.36).

Hard constraints refuse nodes whose domain would be too far ahead of the emptiest one; soft ones prefer emptier domains.
Pods that are terminating do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unisono.api.keys import HOSTNAME
from unisono.cluster.nodes import Codes
from unisono.cluster.podclass import PodClass
from unisono.cluster.selectors import Spread
from unisono.cluster.taints import repels
from unisono.engine.answers import BoolArray, FloatArray, Reason, Veto
from unisono.engine.contract.accelerated import Index
from unisono.engine.plugins.common.node_selectors import match_pod, per_node
from unisono.engine.session.domains import Counts, Source, Tally
from unisono.engine.session.session import Session

UNEVEN = Reason("node(s) didn't match pod topology spread constraints")
UNLABELLED = Reason("node(s) didn't match pod topology spread constraints (missing required label)", unresolvable=True)


def _with_all_keys(spreads: Sequence[Spread], session: Session) -> BoolArray:
    table = session.snapshot.nodes
    mask = np.ones(len(table), dtype=np.bool_)
    for spread in spreads:
        mask &= table.label_column(spread.key) >= 0
    return mask


def _eligible(spread: Spread, pod_class: PodClass, session: Session, keyed: BoolArray) -> BoolArray:
    """Nodes whose pods and domains count: with all keys, and as the constraint's policies say."""
    mask = keyed
    if spread.honor_affinity:
        mask = mask & match_pod(pod_class, session.nodes)
    if spread.honor_taints:
        mask = mask & (per_node(session.nodes, lambda taints: repels(taints, pod_class.tolerations)) == 0)
    return mask


@dataclass(slots=True)
class _Hard:
    """One DoNotSchedule constraint.

    Attributes:
        tally, pledged: pods per domain, and those of them that were only promised a place.
        present, number: the domains that count, and how many these are.
        lacking: nodes without the label.
        own: 1 where the pod itself counts.

    """

    spread: Spread
    tally: Tally
    pledged: Tally
    present: Index
    number: int
    lacking: BoolArray
    own: int

    def skew(self, *, now: bool = False) -> Counts:
        """``[N]`` how far each node's domain would be ahead of the emptiest; ``now`` before promised pods are there."""
        sums = self.tally.sums if self.spread.counts else np.zeros_like(self.tally.sums)
        number = self.number
        there = sums - self.pledged.sums if now and self.spread.counts else sums
        least = int(there[self.present].min()) if number >= self.spread.min_domains and number else 0
        return np.asarray(sums[self.tally.codes] + (self.own - least))


class SpreadFilter:
    """Hard constraints of one class.

    Attributes:
        sources: what the answer depends on.
        self_affecting: a pod of the class, once placed, counts for the next one.

    """

    def __init__(self, pod_class: PodClass, session: Session, spreads: Sequence[Spread]) -> None:
        self.sources: list[Source] = []
        self._parts: list[_Hard] = []
        self._domains = session.domains
        self._facts = session.snapshot.nodes.facts
        keyed = _with_all_keys(spreads, session)
        for spread in spreads:
            source, pledged = session.domains.living(spread.selector), session.domains.pledged(spread.selector)
            self.sources += [source, pledged]
            mask = _eligible(spread, pod_class, session, keyed)
            tally = source.tally(spread.key, mask)
            counts = np.zeros(len(tally.sums) - 1, dtype=np.bool_)
            counts[tally.codes[mask]] = True
            present = np.flatnonzero(counts)
            own = int(spread.selector in pod_class.matched)
            lacking = tally.codes < 0
            promised = pledged.tally(spread.key, mask)
            self._parts.append(_Hard(spread, tally, promised, present, len(present), lacking, own))
        self.self_affecting = any(part.own and part.spread.counts for part in self._parts)

    @classmethod
    def of(cls, pod_class: PodClass, session: Session) -> SpreadFilter | None:
        """None without hard constraints."""
        spreads = [spread for spread in pod_class.terms.spread if spread.hard]
        return cls(pod_class, session, spreads) if spreads else None

    def domains(self) -> list[tuple[Spread, dict[str, int]]]:
        """For each constraint how many of the pods that count each domain has, by the label's value."""
        found = []
        for part in self._parts:
            held = dict(zip(part.present.tolist(), part.tally.sums[part.present].tolist(), strict=True))
            at = {code: column for column, code in enumerate(part.tally.codes.tolist()) if code in held}
            labels = {code: self._facts[column].labels for code, column in at.items()}
            counts = {code: number if part.spread.counts else 0 for code, number in held.items()}
            by_value = {one.get(part.spread.key, ""): counts[code] for code, one in labels.items()}
            found.append((part.spread, by_value))
        return found

    def vetoes(self) -> list[Veto]:
        """Over all nodes; a node is refused by the first constraint that it breaks."""
        size = len(self._parts[0].tally.codes)
        unlabelled, uneven = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
        for part in self._parts:
            unlabelled |= part.lacking & ~uneven
            uneven |= (part.skew() > part.spread.max_skew) & ~part.lacking & ~unlabelled
        vetoes = [Veto(unlabelled, UNLABELLED), Veto(uneven, UNEVEN)]
        if self._domains.unsettled:
            early = np.zeros(size, dtype=np.bool_)
            for part in self._parts:
                early |= part.skew(now=True) > part.spread.max_skew
            vetoes.append(Veto(early & ~unlabelled & ~uneven, UNEVEN, now=True))
        return vetoes


@dataclass(slots=True)
class _Soft:
    """One ScheduleAnyway constraint."""

    spread: Spread
    codes: Codes
    source: Source
    tally: Tally

    def numbers(self) -> Counts:
        """``[N]`` matching pods in each node's domain."""
        if not self.spread.counts:
            return np.zeros(len(self.codes), dtype=np.int64)
        return self.source.counts if self.spread.key == HOSTNAME else self.tally.on_nodes()

    def weight(self, counted: BoolArray) -> float:
        """``ln(domains + 2)`` over the candidates that count: a key with many domains has few pods in each."""
        hosts = self.spread.key == HOSTNAME
        domains = int(counted.sum()) if hosts else len(np.unique(self.codes[counted]))
        return float(np.log(domains + 2))


class SpreadScore:
    """Soft constraints of one class."""

    def __init__(self, pod_class: PodClass, session: Session, spreads: Sequence[Spread]) -> None:
        self._keyed = _with_all_keys(spreads, session)
        self._parts: list[_Soft] = []
        for spread in spreads:
            source = session.domains.living(spread.selector)
            mask = _eligible(spread, pod_class, session, self._keyed)
            tally = source.tally(spread.key, mask)
            self._parts.append(_Soft(spread, tally.codes, source, tally))

    @classmethod
    def of(cls, pod_class: PodClass, session: Session) -> SpreadScore | None:
        """None without soft constraints; there are no default ones."""
        spreads = [spread for spread in pod_class.terms.spread if not spread.hard]
        return cls(pod_class, session, spreads) if spreads else None

    def points(self, candidates: BoolArray) -> FloatArray:
        """``[N]`` 0 to 100, the emptier the more; 0 for nodes that lack a key."""
        counted = candidates & self._keyed
        points = np.zeros(len(candidates), dtype=np.float64)
        if not counted.any():
            return points
        total = np.zeros(len(candidates), dtype=np.float64)
        for part in self._parts:
            total += part.numbers() * part.weight(counted) + (part.spread.max_skew - 1)
        raw = np.floor(total[counted] + 0.5)
        most, least = raw.max(), raw.min()
        points[counted] = np.floor_divide(100.0 * (most + least - raw), most) if most > 0 else 100.0
        return points
