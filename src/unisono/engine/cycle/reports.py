"""What the actions learn about jobs that do not get a place; verdicts and messages are rendered from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from unisono.api.resources import by_importance
from unisono.cluster.podclass import PodClass
from unisono.cluster.recent import Setback
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import BoolArray, Reason, Refusal, Veto
from unisono.engine.candidates.static_answers import Bits, StaticResults, collect
from unisono.engine.candidates.tables import Tables
from unisono.engine.contract.plugin import Plugin
from unisono.engine.cycle.transaction import Placement
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session
from unisono.engine.verdict import Cause


@dataclass(frozen=True, slots=True)
class FitErrors:
    """Why a class of tasks found no node.

    Attributes:
        counts: nodes by reason text; a node counts once per reason that it has.
        cause: the one to name: that of the reason with most nodes, resources first among equals; where nodes that would
            do are refused for a reason with a cause of its own, of these nodes.
        lacking: resource names that were insufficient, by how many nodes.
        apart: of the reasons those that a verdict tells otherwise, see `Reason`.
    """

    counts: Mapping[str, int]
    cause: Cause
    lacking: Mapping[str, int]
    nodes: int
    apart: Collection[str] = ()

    @property
    def text(self) -> str:
        """``0/8 nodes are unavailable: 5 Insufficient cpu, 3 node(s) had untolerated taint(s).``"""
        head = f"0/{self.nodes} nodes are unavailable"
        if not self.counts:
            return head
        return f"{head}: {', '.join(sorted(f'{count} {text}' for text, count in self.counts.items()))}."


def _insufficient(resource: str) -> str:
    return f"Insufficient {resource}"


@dataclass(slots=True)
class JobReport:
    """One job's misfortunes in one cycle.

    Attributes:
        gate: refusal of enqueue (or of the engine before it).
        invalid: refusal of ``valid``.
        quota: first refusal of ``overused`` or ``allocatable``; ``refused`` is the task, in the latter case.
        task, fit: first task that found no node, and why.
        discarded: placements that were taken back because the gang did not become ready.
        pipelined: refusal of the gate ``pipelined`` (the gang could not even be promised its places).
        setback: binds that failed lately, for which it is not placed in this cycle.
        dropped: the invariant that the job's placements broke, or ``""``.
    """

    gate: Refusal | None = None
    invalid: Refusal | None = None
    quota: Refusal | None = None
    refused: Task | None = None
    task: Task | None = None
    fit: FitErrors | None = None
    discarded: list[Placement] = field(default_factory=list)
    pipelined: Refusal | None = None
    setback: Setback | None = None
    dropped: str = ""

    def schedulable(self) -> int:
        """Pending tasks that had found a free place before the gang was given up."""
        return sum(status is TaskStatus.ALLOCATED for status, _ in self.last_places().values())

    def last_places(self) -> dict[str, tuple[TaskStatus, int]]:
        """Task key to state and node column before the gang was given up."""
        return {
            task.key: (placement.status, column)
            for placement in self.discarded
            for task, column in zip(placement.tasks, placement.columns, strict=True)
        }


TOO_MANY_PODS = "node(s) pod number exceeded"


class FitReporter:
    """Finds out why a class fits nowhere; equal questions in an unchanged session are answered once.

    Where the reason is not asked for, `errors` says nothing but that it fits nowhere.

    Attributes:
        reasons: whether it is asked for of all classes; else only of those of the ids ``of``.
    """

    def __init__(
        self,
        session: Session,
        hooks: CombinedAnswers,
        static: StaticResults,
        tables: Tables,
        *,
        reasons: bool = True,
        of: Collection[int] = (),
    ) -> None:
        self.session = session
        self.tables = tables
        self.reasons, self._of = reasons, of
        self.hooks = hooks
        self.static = static
        self._at = -1
        self._known: dict[tuple[int, str], FitErrors] = {}

    def errors(self, pod_class: PodClass) -> FitErrors:
        """Reasons per node: resources first (only the first that lacks), then filters in order."""
        if not self.reasons and pod_class.id not in self._of:
            return FitErrors({}, Cause.NODES_FULL, {}, self.session.nodes.size)
        position = len(self.session.touched)
        if position != self._at:
            self._known.clear()
            self._at = position
        key = (pod_class.id, self.tables.alike(pod_class))
        fit_errors = self._known.get(key)
        if fit_errors is None:
            fit_errors = self._known[key] = self._find(pod_class)
        return fit_errors

    def whatever_is_free(self, pod_class: PodClass) -> FitErrors | None:
        """Why every node refuses the class even if empty, None where one does not.

        By labels, taints and state; nodes that these allow have nothing at all of something that is asked for.
        """
        nodes = self.session.nodes
        static = self.static.result(pod_class, self.session, self.hooks)
        allowed, counts = np.equal(static.bits, 0), Counter[str]()
        names = pod_class.resource_names(self.session.registry)
        for position in sorted(range(len(names)), key=lambda at: by_importance(names[at])):
            without = allowed & (nodes.allocatable[pod_class.rows[position]] <= 0)
            if without.any():
                counts[_insufficient(names[position])] += int(without.sum())
            allowed &= ~without
        if not nodes.size or allowed.any():
            return None
        self._count(static.bits, static.reasons, counts, Counter())
        return FitErrors(dict(counts), Cause.FILTERS, {}, nodes.size)

    def passing(self, pod_class: PodClass) -> BoolArray:
        """``[N]`` nodes that no filter refuses for the class, whether they have room for it or not."""
        view = self.session.nodes
        static = self.static.result(pod_class, self.session, self.hooks)
        bits = np.where(static.bits == 0, np.uint64(0), np.uint64(1 << 63))
        view.future = True
        for plugin in self.hooks.refusing():
            collect(self._vetoes(plugin, pod_class, view), bits, [])
        return np.equal(bits, 0)

    def refused(self, reason: Reason) -> FitErrors:
        """One reason for every node."""
        size = self.session.nodes.size
        return FitErrors({reason.text: size} if size else {}, reason.cause, {}, size)

    def _find(self, pod_class: PodClass) -> FitErrors:
        view = self.session.nodes
        if not view.size:
            return FitErrors({}, Cause.NO_NODES, {}, 0)
        counts: Counter[str] = Counter()
        lacking: Counter[str] = Counter()
        passed = np.ones(view.size, dtype=np.bool_)
        rows = pod_class.rows
        short = view.future_idle[rows] < pod_class.amounts[:, None]
        names = pod_class.resource_names(self.session.registry)
        for position in sorted(range(len(names)), key=lambda at: by_importance(names[at])):
            number = int((short[position] & passed).sum())
            if number:
                lacking[names[position]] += number
                counts[TOO_MANY_PODS if pod_class.best_effort else _insufficient(names[position])] += number
            passed &= ~short[position]
        causes: Counter[Cause] = Counter({Cause.NODES_FULL: sum(lacking.values())})
        static = self.static.result(pod_class, self.session, self.hooks)
        self._count(static.bits * passed, static.reasons, counts, causes)
        reasons: list[Reason] = []
        bits = np.where(passed & (static.bits == 0), np.uint64(0), np.uint64(1 << 63))
        view.future = True
        for plugin in self.hooks.refusing() if not bits.all() else ():  # else there is nothing left to refuse
            collect(self._vetoes(plugin, pod_class, view), bits, reasons)
        left = Counter[Cause]()
        self._count(bits, reasons, counts, left)
        if left.keys() - {Cause.FILTERS, Cause.NODES_FULL}:
            # Most nodes may be others' anyway: what has a name of its own keeps the pod off those that it could use.
            left[Cause.NODES_FULL] += int((~passed & (static.bits == 0)).sum())
            causes = left
        else:
            causes.update(left)
        cause = max(causes, key=lambda c: (causes[c], c is Cause.NODES_FULL))
        apart = {reason.text for reason in (*static.reasons, *reasons) if reason.apart}
        return FitErrors(dict(counts), cause, dict(lacking), view.size, apart | set(map(_insufficient, lacking)))

    def _vetoes(self, plugin: Plugin, pod_class: PodClass, view: NodeView) -> list[Veto]:
        """One plug-in's dynamic vetoes against a start in this cycle, those over domains last."""
        vetoes: list[Veto] = []
        for hook, asked, silent in (("filter", "concerns", False), ("domain_filter", "stamp", None)):
            method = dict(self.hooks.flat[hook]).get(plugin)
            if method is not None and self.hooks.query(plugin, asked, pod_class) is not silent:
                vetoes += [veto for veto in method(pod_class, view) if not veto.later]
        return vetoes

    @staticmethod
    def _count(bits: Bits, reasons: list[Reason], counts: Counter[str], causes: Counter[Cause]) -> None:
        for bit, reason in enumerate(reasons):
            number = int(((bits >> np.uint64(bit)) & np.uint64(1)).sum())
            if number:
                counts[reason.text] += number
                causes[reason.cause] += number
