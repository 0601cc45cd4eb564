"""How long actions and plug-ins take, and what happens to a plug-in that takes too long.

The engine has no clock of its own: without one passed in nothing is measured. Hooks that answer for all nodes or once
per cycle are measured for every plug-in; hooks that are asked job by job only for plug-ins that are not built in, so
that measuring costs the built-in ones nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from unisono.engine.config.model import DEFAULT_PLUGIN_TIME

if TYPE_CHECKING:
    from unisono.engine.contract.plugin import Plugin

Monotonic = Callable[[], float]

_UNMEASURED = nullcontext()

_MOST_LATE = 4
"""Slow questions per cycle after which a plug-in is asked nothing more."""

_OWN = "unisono.engine.plugins."
_PER_CALL = frozenset(
    (
        *("queue_key", "job_key", "task_key", "victim_queue_key"),
        *("enqueueable", "enqueued", "pipelined", "valid", "ready", "missing", "starving"),
        *("overused", "allocatable", "headroom", "preemptive"),
        *("prefilter", "placed", "removed", "moved", "annotations"),
        *("allowance", "spared", "lost_work"),
        *("concerns", "is_pure", "answers_alike", "stamp", "self_affecting", "by_domains"),
    )
)
"""Asked once per job, queue, task or placement."""


class TooSlow(Exception):
    """A plug-in has used up its time in this cycle."""

    def __init__(self, seconds: float, limit: float) -> None:
        super().__init__(f"took {seconds:.3g} s of this cycle (its limit is {limit:g} s)")


class Budget:
    """The time of one plug-in in one cycle.

    Where it is used up, what has taken most of it pays: about that the plug-in is asked no more, and its time is not
    counted any longer, so that one slow question does not cost others their answers. After a few of these the plug-in
    is asked nothing more.
    """

    def __init__(self, clock: Monotonic, limit: float) -> None:
        self.clock = clock
        self.limit = limit
        self._left = limit
        self._taken: dict[Hashable, float] = defaultdict(float)
        self._late: dict[Hashable, float] = {}
        self._total = 0.0

    def admit(self, subject: Hashable) -> None:
        """Raise `TooSlow` when the plug-in is not to be asked about this."""
        if subject in self._late:
            raise TooSlow(self._late[subject], self.limit)
        if len(self._late) >= _MOST_LATE:
            raise TooSlow(self._total, self.limit)

    def spend(self, subject: Hashable, seconds: float) -> None:
        """Count a call; raises `TooSlow` when what it was about has to pay."""
        self._total += seconds
        self._left -= seconds
        self._taken[subject] += seconds
        if self._left >= 0:
            return
        slowest = max(self._taken, key=self._taken.__getitem__)
        taken = self._late[slowest] = self._taken.pop(slowest)
        self._left += taken
        if slowest == subject:
            raise TooSlow(taken, self.limit)


class Stopwatch:
    """Seconds of one cycle by stage.

    Args:
        monotonic: seconds that only grow; None: nothing is measured, and no plug-in is too slow.
        limit: seconds that a plug-in that is not built in may take; beyond that its hooks fail.
            Built-in plug-ins have no limit: without ``predicates``, for one, no pod could be placed.

    Attributes:
        seconds: by stage: ``actions/NAME``, ``plugins/NAME/open``, ``plugins/NAME/hooks``, ``plugins/NAME/close``, ...
    """

    def __init__(self, monotonic: Monotonic | None = None, limit: float = DEFAULT_PLUGIN_TIME) -> None:
        self.monotonic = monotonic
        self.limit = limit
        self.seconds: dict[str, float] = {}
        self._budgets: dict[str, Budget] = {}

    def budget(self, plugin: Plugin) -> Budget:
        """The time of a plug-in that is not built in; only with a clock."""
        assert self.monotonic is not None
        name = plugin.config.name
        if name not in self._budgets:
            self._budgets[name] = Budget(self.monotonic, self.limit)
        return self._budgets[name]

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Measure a part of the cycle."""
        return _UNMEASURED if self.monotonic is None else self._measured(name, self.monotonic)

    @contextmanager
    def _measured(self, name: str, clock: Monotonic) -> Iterator[None]:
        started = clock()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + clock() - started

    def watched(self, plugin: Plugin, hook: str) -> Callable[..., Any]:
        """The plug-in's method, measured where that is worth it."""
        method: Callable[..., Any] = getattr(plugin, hook)
        if self.monotonic is None:
            return method
        if hook in _PER_CALL and not is_hosted(plugin):
            return method
        clock, seconds, name = self.monotonic, self.seconds, plugin.config.name
        stage = f"plugins/{name}/{hook if hook in ('open', 'close') else 'hooks'}"
        seconds.setdefault(stage, 0.0)

        def measured(*arguments: Any, **named: Any) -> Any:
            started = clock()
            try:
                return method(*arguments, **named)
            finally:
                seconds[stage] += clock() - started

        return measured


def is_hosted(plugin: Plugin) -> bool:
    """Whether a plug-in comes from outside."""
    return not type(plugin).__module__.startswith(_OWN)
