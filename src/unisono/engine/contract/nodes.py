"""Hooks of plug-ins about nodes: which of them may take a pod, and which is best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unisono.engine.answers import BoolArray, FloatArray, RawScore, Reason, Veto

if TYPE_CHECKING:
    from unisono.cluster.podclass import PodClass
    from unisono.cluster.records import Task
    from unisono.engine.changes import Change
    from unisono.engine.session.node_view import NodeView


class NodeHooks:
    """Filters and scores."""

    # ---- nodes

    def prefilter(self, task: Task) -> Reason | None:
        """A reason refuses the task on every node; asked once per run of equal tasks."""
        raise NotImplementedError

    def static_filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Vetoes that follow from the spec and the node objects alone.

        The answer is kept across cycles and asked again only for nodes that changed, so ``nodes`` may be a part of the
        cluster; it must depend on nothing but ``pod_class``, ``nodes`` and ``self.arguments`` (and ``scope``).
        Resources and the arrays other than ``allocatable`` must not be looked at. List cheap and common reasons first;
        all reasons of one plug-in are collected per node up to the first unresolvable one.
        """
        raise NotImplementedError

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Vetoes that change with placements. The engine has checked resources itself, except for BestEffort pods.

        Answer ``()`` when the class is not concerned.
        """
        raise NotImplementedError

    def static_score(self, pod_class: PodClass, nodes: NodeView) -> Sequence[RawScore]:
        """Scores that follow from the spec and the node objects alone; kept as ``static_filter``'s answer is.

        ``()`` when the class is not concerned. Normalisation over candidates is the engine's work.
        """
        raise NotImplementedError

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """Points per column of ``nodes`` as if the task were placed there, weight included; None: not concerned.

        ``nodes.used`` and ``nodes.nonzero`` do not contain the task itself. Use elementwise arithmetic only, so that
        the answer for a node does not depend on which other nodes are in the view.
        """
        raise NotImplementedError

    def domain_filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Vetoes that a placement may change on any node: by topology domain, by what is left of something shared.

        Asked about all nodes of the session at once, again after `stamp` has moved.
        """
        raise NotImplementedError

    def relax(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Change]:
        """Changes after which the plug-in's filters would take pods of the class on some node, the best first.

        Asked when a cycle is over, about a class that no node of the session takes. Each change is tried on a copy of
        the cluster, with all other plug-ins, and only those are offered after which the job starts.
        """
        raise NotImplementedError

    def batch_score(self, pod_class: PodClass, nodes: NodeView, candidates: BoolArray) -> FloatArray | None:
        """Points per node of the session, weight included, that depend on all ``candidates`` (``[N]``); None: none.

        Asked again after every placement.
        """
        raise NotImplementedError
