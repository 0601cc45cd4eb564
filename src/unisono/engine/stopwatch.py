"""How long actions and plug-ins take, and what happens to a plug-in that takes too long.

The engine has no clock of its own: without one passed in nothing is measured. Hooks that answer for all nodes or once
per cycle are measured for every plug-in; hooks that are asked job by job only for plug-ins that are not built in, so
that measuring costs the built-in ones nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unisono.engine.plugin import Plugin

Monotonic = Callable[[], float]

DEFAULT_LIMIT = 1.0
"""Seconds that a plug-in may take per cycle."""

_OWN = "unisono.engine.plugins."
_PER_CALL = frozenset(
    (
        *("queue_key", "job_key", "task_key", "victim_queue_key"),
        *("enqueueable", "enqueued", "pipelined", "valid", "ready", "missing", "starving"),
        *("overused", "allocatable", "headroom", "preemptive"),
        *("prefilter", "placed", "removed", "moved", "annotations"),
        *("allowance", "spared", "lost_work"),
    )
)
"""Asked once per job, queue, task or placement."""


class TooSlow(Exception):
    """A plug-in has used up its time in this cycle."""

    def __init__(self, seconds: float, limit: float) -> None:
        super().__init__(f"took {seconds:.3g} s of this cycle (its limit is {limit:g} s)")


class Stopwatch:
    """Seconds of one cycle by stage.

    Args:
        monotonic: seconds that only grow; None: nothing is measured and nobody is too slow.
        limit: seconds that a plug-in that is not built in may take; what it is asked beyond that is asked without it.
            Built-in plug-ins have no limit: without ``predicates``, for one, pods would go where they must not.

    Attributes:
        seconds: by stage: ``actions/NAME``, ``plugins/NAME/open``, ``plugins/NAME/hooks``, ``plugins/NAME/close``, ...

    """

    def __init__(self, monotonic: Monotonic | None = None, limit: float = DEFAULT_LIMIT) -> None:
        self.monotonic = monotonic
        self.limit = limit
        self.seconds: dict[str, float] = {}
        self._used: dict[str, float] = defaultdict(float)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a part of the cycle."""
        if self.monotonic is None:
            yield
            return
        started = self.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self.monotonic() - started

    def watched(self, plugin: Plugin, hook: str) -> Callable[..., Any]:
        """The plug-in's method, measured where that is worth it.

        It raises `TooSlow` after a call with which the plug-in has used up its time, as if the call had failed: a call
        that is under way cannot be stopped.
        """
        method: Callable[..., Any] = getattr(plugin, hook)
        if self.monotonic is None:
            return method
        hosted = is_hosted(plugin)
        if hook in _PER_CALL and not hosted:
            return method
        clock, seconds, used, name = self.monotonic, self.seconds, self._used, plugin.config.name
        limit = self.limit if hosted else float("inf")
        stage = f"plugins/{name}/{hook if hook in ('open', 'close') else 'hooks'}"
        seconds.setdefault(stage, 0.0)

        def measured(*arguments: Any, **named: Any) -> Any:
            started = clock()
            try:
                return_value = method(*arguments, **named)
            finally:
                taken = clock() - started
                seconds[stage] += taken
                used[name] += taken
            if used[name] > limit:
                raise TooSlow(used[name], limit)
            return return_value

        return measured


def is_hosted(plugin: Plugin) -> bool:
    """Whether a plug-in comes from outside."""
    return not type(plugin).__module__.startswith(_OWN)
