"""What is static about a pod class on all nodes, kept from cycle to cycle.

An entry is brought up to date for the nodes that changed since it was made, and dropped when the set of nodes did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from unisono.cluster.interning import PodClasses
from unisono.cluster.nodes import NodeTable
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import BoolArray, FloatArray, Normalise, Reason, Scope, Veto
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session

Bits = npt.NDArray[np.uint64]
HOOKS = ("static_filter", "static_score")
_KEPT_CLASSES = 2048
_MOST_REASONS = 60
_FEW = 64
_OTHERS = Reason("node(s) were refused for other reasons")


@dataclass(slots=True)
class RawPoints:
    """A raw score on all nodes; ``constant`` saves looking for the maximum among candidates."""

    raw: FloatArray
    weight: float
    normalise: Normalise
    constant: bool


@dataclass(slots=True)
class StaticResult:
    """Static answers for one class: ``bits[i]`` has bit ``b`` set where ``reasons[b]`` refuses node ``i``.

    ``images``: on how many nodes the class's images were; a score for one node depends on it. ``closed``: nodes that
    something refuses which does not pass.
    """

    generation: int
    layout: int
    reasons: list[Reason]
    bits: Bits
    scores: list[RawPoints]
    images: tuple[tuple[int, int], ...]
    closed: BoolArray
    _least: tuple[tuple[int, int], int, list[int]] | None = None

    def least(self, table: NodeTable) -> tuple[int, list[int]]:
        """The first few of the nodes that are not closed: how many, and what each has at least, by resource row.

        Rows of resources that the table does not have yet are missing: no node has any.
        """
        cached, at = self._least, (table.generation, len(table.allocatable))  # rows come without a new generation
        if cached is None or cached[0] != at:
            columns = np.flatnonzero(~self.closed[:_FEW])
            has = table.allocatable[:, columns].min(axis=1, initial=0 if not len(columns) else 2**62).tolist()
            cached = self._least = at, len(columns), has
        return cached[1], cached[2]

    @property
    def allowed(self) -> BoolArray:
        """``[N]`` nodes that no static filter refuses."""
        return np.asarray(self.bits == 0)


class StaticResults:
    """Answers of static hooks, by class; lives in the state's memo while the configuration stays the same."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.kept: dict[tuple[bool, int], StaticResult] = {}
        self._freed = 0

    @classmethod
    def of(cls, session: Session, config: SchedulerConfig) -> StaticResults:
        """The results kept for ``config``, or new ones."""
        memo = session.snapshot.memo
        kept = memo.of(cls, lambda: cls(config))
        if kept.config != config:
            kept = cls(config)
            memo.put(kept)
        if len(kept.kept) > _KEPT_CLASSES:
            kept.kept.clear()
        kept._forget(session.snapshot.classes)
        return kept

    def _forget(self, classes: PodClasses) -> None:
        """Drop the answers for classes that are no longer there."""
        if self._freed != classes.freed:
            self._freed = classes.freed
            for by_kin, number in list(self.kept):
                if number not in (classes.kins if by_kin else classes.all):
                    del self.kept[by_kin, number]

    def result(self, pod_class: PodClass, session: Session, hooks: CombinedAnswers) -> StaticResult:
        """Static answers for a class, up to date; plug-ins with a wider scope, or for a moment, are asked each time."""
        table = session.snapshot.nodes
        wide = any(plugin.scope is not Scope.CLASS or plugin.momentary for plugin in hooks.answering(*HOOKS))
        if wide or hooks.incomplete:
            return _ask(pod_class, session.nodes, table, hooks)
        cached = self.kept.get(_key(pod_class, hooks))
        if cached is not None and cached.layout == table.layout:
            current = cached.generation == table.generation
            if cached.images != table.images_known(pod_class.images):
                return self._fresh(pod_class, session, hooks)
            if current or _update(cached, pod_class, session, hooks):
                return cached
        return self._fresh(pod_class, session, hooks)

    def _fresh(self, pod_class: PodClass, session: Session, hooks: CombinedAnswers) -> StaticResult:
        given = hooks.guard.instead
        fresh = _ask(pod_class, session.nodes, session.snapshot.nodes, hooks)
        if hooks.guard.instead == given:
            self.kept[_key(pod_class, hooks)] = fresh
        return fresh


def _key(pod_class: PodClass, hooks: CombinedAnswers) -> tuple[bool, int]:
    """Whose answers hold for a class: those for its kin, where every plug-in looks at nothing else."""
    by_kin = all(plugin.static_by_kin for plugin in hooks.answering(*HOOKS))
    return by_kin, pod_class.kin if by_kin else pod_class.base.id


def _ask(pod_class: PodClass, view: NodeView, table: NodeTable, hooks: CombinedAnswers) -> StaticResult:
    reasons: list[Reason] = []
    bits = np.zeros(view.size, dtype=np.uint64)
    closed = np.zeros(view.size, dtype=np.bool_)
    for _, method in hooks.flat["static_filter"]:
        vetoes = method(pod_class, view)
        collect(vetoes, bits, reasons)
        for veto in vetoes:
            if not veto.reason.passing:
                closed |= veto.nodes
    scores: list[RawPoints] = []
    for _, method in hooks.flat["static_score"]:
        scores.extend(
            RawPoints(np.asarray(a.raw, dtype=np.float64), a.weight, a.normalise, _constant(a.raw))
            for a in method(pod_class, view)
        )
    images = table.images_known(pod_class.images)
    return StaticResult(table.generation, table.layout, reasons, bits, scores, images, closed)


def _constant(raw: FloatArray) -> bool:
    return len(raw) == 0 or bool((raw == raw[0]).all())


def collect(vetoes: Sequence[Veto], bits: Bits, reasons: list[Reason]) -> None:
    """Add one plug-in's vetoes for nodes that no earlier plug-in refused.

    Reasons of the same plug-in accumulate per node up to the first unresolvable one, as Volcano's filters do.
    """
    open_nodes = bits == 0
    for veto in vetoes:
        hit = veto.nodes & open_nodes
        reason = veto.reason
        if reason not in reasons:
            if len(reasons) >= _MOST_REASONS:  # a bit for each
                reason = replace(_OTHERS, unresolvable=reason.unresolvable)
            if reason not in reasons:
                reasons.append(reason)
        bits[hit] |= np.uint64(1 << reasons.index(reason))
        if veto.reason.unresolvable:
            open_nodes &= ~veto.nodes


def _update(found: StaticResult, pod_class: PodClass, session: Session, hooks: CombinedAnswers) -> bool:
    """Ask again for the nodes that changed; False when the answers do not fit together any more."""
    table = session.snapshot.nodes
    columns = np.flatnonzero(table.changed > found.generation)
    given = hooks.guard.instead
    fresh = _ask(pod_class, session.part(columns), table, hooks)
    if hooks.guard.instead != given:
        return False
    shape = [(score.weight, score.normalise) for score in fresh.scores]
    if fresh.reasons != found.reasons or shape != [(s.weight, s.normalise) for s in found.scores]:
        return False
    found.bits[columns], found.closed[columns] = fresh.bits, fresh.closed
    for old, new in zip(found.scores, fresh.scores, strict=True):
        old.raw[columns] = new.raw
        old.constant = _constant(old.raw)
    found.generation = table.generation
    return True
