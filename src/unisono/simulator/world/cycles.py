"""When the engine is asked, and what its decisions do to the world.

A cycle that can decide nothing is left out: none of the actions moves running pods, and no node has room for any pod
that waits. What it would have done is only to admit jobs; where no plug-in may refuse that, they are admitted without
it.
"""

from __future__ import annotations

from collections.abc import Mapping

from unisono import engine
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.decisions import Decisions, PodGroupUpdate
from unisono.engine.plugins.registry import lookup_with
from unisono.simulator.world import outcome as outcomes
from unisono.simulator.world.abilities import goes_by_saved_work, recheck_seconds
from unisono.simulator.world.places import Places

_MOST_CYCLES = 16
"""Cycles at one moment; what still moves then goes on a second later."""
_SETTLING = 1.0
_QUIET = 86_400.0
"""After so long with nothing to come, no window or limit of time will change a decision."""
_KEEPING = frozenset(("enqueue", "allocate", "backfill"))
"""Actions that do nothing unless there is room for a pod that waits, but for admission."""
_PASSIVE = _KEEPING | {"preempt", "reclaim", "gangpreempt", "gangreclaim", "defragment"}
"""Actions that do nothing unless a pod waits."""


class Cycles:
    """Asks the engine when something has changed.

    Args:
        config: of the scheduler.
        plugins: plug-ins by name, looked up before the registry.
        places: what it decides about.
        whole: the state has nothing but these jobs in it, and all queues are open.
    """

    def __init__(
        self, config: SchedulerConfig, plugins: Mapping[str, type[Plugin]], places: Places, *, whole: bool
    ) -> None:
        self._config, self._plugins, self._places = config, plugins, places
        self._settings, self._heap, self._run = places.settings, places.heap, places.run
        actions = set(config.actions)
        found = [lookup_with(plugins)(one.name) for one in config.plugins]
        self._watches = any(one is None or one.remembers for one in found)
        self._moves = not actions <= _PASSIVE
        self._passive = not self._moves and not self._watches
        self._admits = "enqueue" in actions
        # Where a gate may refuse, what it lets in next depends on what was tried in each cycle.
        gated = self._admits and any(
            one is None or ("enqueueable" in one.implemented and not one.permits_only) for one in found
        )
        self._keeping = whole and actions <= _KEEPING and not gated and not self._watches
        self._recheck = recheck_seconds(config) if self._settings.recheck is None else self._settings.recheck
        self._by_saved_work = goes_by_saved_work(config)
        self._next, self._due = 0.0, -1.0
        self._moved = 0.0

    def wake(self, at: float) -> None:
        """Ask for a cycle at a later moment."""
        now = self._heap.now
        if self._due < now or at < self._due or (self._due == now < at):
            self._due = at
            self._heap.push(at, "cycle", None)

    def after_moment(self) -> None:
        """All events of a moment have happened: decide, or do so later where cycles must be further apart."""
        if not self._places.changed:
            return
        if self._heap.now >= self._next:
            self._decide()
        else:
            self.wake(self._next)

    def _decide(self) -> None:
        """Cycles until nothing moves any more at this moment."""
        places, settings, now = self._places, self._settings, self._heap.now
        for _ in range(_MOST_CYCLES):
            places.changed = places.made = False
            self._next = now + settings.period
            if self._passive and not places.waiting:
                return
            again = not self._is_vain() and self._carry_out(self._ask())
            if not settings.retry:
                self._drop_waiting()
                return
            if not again:
                self._look_again()
                return
        places.changed = True
        self.wake(now + max(_SETTLING, settings.period))

    def _look_again(self) -> None:
        """Ask for a cycle for what looks at the clock, as long as anything can come of it."""
        heap, now = self._heap, self._heap.now
        if self._places.live and (self._places.waiting or self._moves) and self._recheck:
            if not heap and now - self._moved > _QUIET:
                return
            self.wake(now + self._recheck)

    def _is_vain(self) -> bool:
        """Whether a cycle would bind nothing, and refuse no job: those that have come are admitted then."""
        places = self._places
        if not self._keeping or places.room.holds_any(places.wanted):
            return False
        coming = list(places.coming.values())
        if not self._admits:  # a cycle gives those that have come their phase, which later cycles go by
            return not coming
        if coming and any(live.has_places for live in coming):
            return False
        for live in coming:
            meta = live.group.metadata
            places.write(live, PodGroupUpdate(meta.namespace or "", meta.name, meta.uid or "", "Inqueue", 0, 0, 0, ()))
        return True

    def _ask(self) -> Decisions:
        self._run.cycles += 1
        if self._by_saved_work:
            self._places.note_saved_work()
        snapshot, now = self._places.state.snapshot(), self._settings.epoch + self._heap.now
        return engine.run(snapshot, self._config, now, self._settings.seed, plugins=self._plugins, verdicts=False)

    def _carry_out(self, decisions: Decisions) -> bool:
        """Let what was decided happen; answers whether it may lead to more decisions at once."""
        places = self._places
        self._run.violations += [f"{one.subject}: {one.message}" for one in decisions.violations]
        again = False
        for update in decisions.pod_groups:
            live = places.live.get(update.key)
            if live is None:
                continue
            admitted = update.phase != (live.group.status.phase or "Pending") and update.key in places.waiting
            places.write(live, update)
            again = again or admitted
        for condition in decisions.pod_conditions:
            places.nominate(condition)
        started = places.bind(decisions.binds)
        if started or decisions.evictions:
            self._moved = self._heap.now
        again = (again and bool(places.waiting) and not started) or (started and self._watches)
        places.evict(decisions.evictions)
        if decisions.again_at is not None:
            now = self._heap.now
            self.wake(max(now + max(_SETTLING, self._settings.period), decisions.again_at - self._settings.epoch))
        return again or places.made or (bool(decisions.evictions) and self._settings.grace <= 0)

    def _drop_waiting(self) -> None:
        for live in list(self._places.waiting.values()):
            if live.outcome.started is None:
                self._places.remove(live, outcomes.DROPPED)
        self._places.changed = False
