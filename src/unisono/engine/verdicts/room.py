"""The nodes that a pod may use: what they lack for it, and what of it is there."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import total
from unisono.engine.answers import BoolArray
from unisono.engine.changes import listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import FitErrors
from unisono.engine.session.limit import tasks_fitting

_MOST_NAMED = 3
"""Nodes that are named where labels choose them."""


class Room:
    """For pods of one class.

    Attributes:
        allowed: ``[N]`` nodes that nothing else refuses; where one of them could hold a pod if it were empty, without
            those that could not: what is free there is of no use.

    """

    def __init__(self, cycle: Cycle, pod_class: PodClass, allowed: BoolArray) -> None:
        self.pod_class, self.registry, self.nodes = pod_class, cycle.session.registry, cycle.session.nodes
        able = allowed & (tasks_fitting(self.nodes.allocatable, pod_class) > 0)
        self._able = bool(able.any())
        self._others = bool((allowed & ~able).any())
        self.allowed = able if self._able else allowed

    def lacking(self, fit: FitErrors) -> list[str]:
        """What these nodes have too little of, by name; what ``fit`` says of all nodes, where that is not known."""
        pod_class = self.pod_class
        if self._able:
            names = pod_class.resource_names(self.registry)
            short = self.nodes.future_idle[pod_class.rows] < pod_class.amounts[:, None]
            found = {name for name, row in zip(names, short, strict=True) if (row & self.allowed).any()}
            if found and (found & fit.lacking.keys()):
                fitting = [name for name in pod_class.requests if name in found]
                return fitting or sorted(found)
        return [name for name in pod_class.requests if name in fit.lacking] or list(fit.lacking)

    def only(self, *, alone: bool = False) -> str:
        """``; only gpu-0 could hold such a pod``, where other nodes could not hold a pod even if they were empty.

        ``alone``: nothing else that is said tells why pods cannot use the others, such as labels.
        """
        others = self._others or (alone and 0 < self.allowed.sum() < min(self.nodes.size, _MOST_NAMED + 1))
        if not (self._able and others):
            return ""
        names = tuple(self.nodes.table.names[at] for at in np.flatnonzero(self.allowed).tolist())
        return f"; only {listed(names)} could hold such a pod"

    def need(self, lacking: Iterable[str], missing: int) -> dict[str, int]:
        """What ``missing`` pods ask for."""
        requests = self.pod_class.requests
        return {name: requests[name] * missing for name in lacking if name in requests}

    def have(self, lacking: Iterable[str]) -> dict[str, int]:
        """What is free of it: on the node with the largest part of one pod, where no node has room for a whole one."""
        names = list(lacking)
        amounts = self.nodes.idle if self._able else self.nodes.allocatable
        rows = [self.registry.requested(name) for name in names]
        usable = self.allowed if self.allowed.any() else np.ones(self.nodes.size, dtype=np.bool_)
        there = np.where(usable, np.maximum(amounts, 0), 0)
        if names and self.nodes.size and not (tasks_fitting(there, self.pod_class) > 0).any():
            parts = there[self.pod_class.rows] / self.pod_class.amounts[:, None]
            best = int(parts.min(axis=0).argmax())
            return {name: int(there[row, best]) for name, row in zip(names, rows, strict=True)}
        return {name: int(total(there[row], 0)) for name, row in zip(names, rows, strict=True)}
