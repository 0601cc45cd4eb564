"""What a placement may change on other nodes than its own: vetoes per domain, and points over all candidates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.engine.answers import BoolArray, FloatArray, Veto
from unisono.engine.contract.accelerated import LineScore
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.session import Session

HOOKS = ("domain_filter", "batch_score")
Stamps = list[int | None]
Heeds = Callable[[Veto], bool]


class CrossNodeAnswers:
    """What ``domain_filter`` and ``batch_score`` answer for one class: a placement may change it on other nodes.

    Attributes:
        alone: a placement of the class may change its own answers, so tasks are placed one by one.
        by_domains: placements change the answers through the session's pods per domain only.
        lines: the only answers are points that whole lines of nodes share; tasks are placed by them.

    """

    def __init__(
        self,
        pod_class: PodClass,
        session: Session,
        hooks: CombinedAnswers,
        plugins: list[Plugin],
        heeds: Callable[[Veto], bool],
    ) -> None:
        self.pod_class = pod_class
        self.session = session
        self.hooks = hooks
        self.heeds = heeds
        self.filters = [asked for asked in hooks.flat["domain_filter"] if asked[0] in plugins]
        self.scores = [asked for asked in hooks.flat["batch_score"] if asked[0] in plugins]
        self.alone = bool(self.scores) or any(
            hooks.query(plugin, "self_affecting", pod_class) for plugin, _ in self.filters
        )
        self.by_domains = not self.scores and all(
            hooks.query(plugin, "by_domains", pod_class) for plugin, _ in self.filters
        )
        self._stamp_of = [hooks.question(plugin, "stamp") for plugin in plugins]
        self._stamps: Stamps = []
        self.lines = self._shared()

    def _shared(self) -> LineScore | None:
        """The points of lines, where one plug-in scores by lines and no other plug-in is concerned."""
        if self.filters or len(self.scores) != 1:
            return None
        plugin, _ = self.scores[0]
        method = dict(self.hooks.flat["line_score"]).get(plugin)
        if method is None:
            return None
        found: LineScore | None = method(self.pod_class)
        return found

    def failed(self, error: BaseException) -> None:
        """The points of lines could not be asked: ``batch_score`` is."""
        self.lines = None
        for plugin, _ in self.scores:
            self.hooks.guard.caught(plugin, "line_score", self.pod_class, error)

    @classmethod
    def of(
        cls, pod_class: PodClass, session: Session, hooks: CombinedAnswers, heeds: Callable[[Veto], bool]
    ) -> CrossNodeAnswers | None:
        """The layer of a class; None when no plug-in is concerned."""
        plugins = [plugin for plugin in hooks.answering(*HOOKS) if hooks.query(plugin, "stamp", pod_class) is not None]
        return cls(pod_class, session, hooks, plugins, heeds) if plugins else None

    def stamps(self) -> Stamps:
        """What the plug-ins say of the state that their answers depend on."""
        pod_class = self.pod_class
        return [stamp(pod_class) for stamp in self._stamp_of]

    def moved(self, now: Stamps) -> bool:
        """Whether an answer may have changed since `blocked` was called; without scores, candidates do not matter."""
        return bool(self.scores) or -1 in now or self._stamps != now

    def blocked(self, now: Stamps | None = None) -> BoolArray:
        """``[N]`` nodes that a domain filter refuses; ``now``: the present stamps, where they are known."""
        nodes = self.session.nodes
        refused = np.zeros(nodes.size, dtype=np.bool_)
        self._stamps = self.stamps() if now is None else now
        for _, method in self.filters:
            for veto in method(self.pod_class, nodes):
                if self.heeds(veto):
                    refused |= veto.nodes
        return refused

    def points(self, candidates: BoolArray) -> FloatArray | float:
        """``[N]`` points given the present candidates."""
        total: FloatArray | float = 0.0
        given = candidates.view()
        given.flags.writeable = False
        for _, method in self.scores:
            part = method(self.pod_class, self.session.nodes, given)
            if part is not None:
                total = total + part
        return total
