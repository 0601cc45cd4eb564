"""What a placement may change on other nodes than its own: vetoes per domain, and points over all candidates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.engine.answers import BoolArray, FloatArray, Veto
from unisono.engine.hooks import Hooks
from unisono.engine.plugin import Plugin
from unisono.engine.session import Session

HOOKS = ("domain_filter", "batch_score")


class Layer:
    """Answers of ``domain_filter`` and ``batch_score`` for one class.

    Attributes:
        alone: a placement of the class may change its own answers, so tasks are placed one by one.

    """

    def __init__(
        self, pod_class: PodClass, session: Session, hooks: Hooks, plugins: list[Plugin], heeds: Callable[[Veto], bool]
    ) -> None:
        self.pod_class = pod_class
        self.session = session
        self.hooks = hooks
        self.heeds = heeds
        self.filters = [asked for asked in hooks.flat["domain_filter"] if asked[0] in plugins]
        self.scores = [asked for asked in hooks.flat["batch_score"] if asked[0] in plugins]
        self.alone = bool(self.scores) or any(plugin.self_affecting(pod_class) for plugin, _ in self.filters)
        self._plugins = plugins
        self._stamps: list[int | None] = []

    @classmethod
    def of(cls, pod_class: PodClass, session: Session, hooks: Hooks, heeds: Callable[[Veto], bool]) -> Layer | None:
        """The layer of a class; None when no plug-in is concerned."""
        plugins: list[Plugin] = []
        for plugin in dict.fromkeys(plugin for hook in HOOKS for plugin, _ in hooks.flat[hook]):
            try:
                if plugin.stamp(pod_class) is not None:
                    plugins.append(plugin)
            except Exception as error:
                hooks.switch_off(plugin, "stamp", error)
        return cls(pod_class, session, hooks, plugins, heeds) if plugins else None

    def moved(self) -> bool:
        """Whether an answer may have changed since `blocked` was called; without scores, candidates do not matter."""
        now = self._now()
        return bool(self.scores) or -1 in now or self._stamps != now

    def _now(self) -> list[int | None]:
        return [plugin.stamp(self.pod_class) for plugin in self._plugins]

    def blocked(self) -> BoolArray:
        """``[N]`` nodes that a domain filter refuses."""
        nodes = self.session.nodes
        refused = np.zeros(nodes.size, dtype=np.bool_)
        self._stamps = self._now()
        for asked in tuple(self.filters):
            plugin, method = asked
            try:
                for veto in method(self.pod_class, nodes):
                    if self.heeds(veto):
                        refused |= veto.nodes
            except Exception as error:
                self.filters.remove(asked)
                self.hooks.switch_off(plugin, "domain_filter", error)
        return refused

    def points(self, candidates: BoolArray) -> FloatArray | float:
        """``[N]`` points given the present candidates."""
        total: FloatArray | float = 0.0
        for asked in tuple(self.scores):
            plugin, method = asked
            try:
                part = method(self.pod_class, self.session.nodes, candidates)
                if part is not None:
                    total = total + part
            except Exception as error:
                self.scores.remove(asked)
                self.hooks.switch_off(plugin, "batch_score", error)
        return total
