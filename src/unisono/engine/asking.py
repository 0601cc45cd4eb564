"""Who is asked which hook, in which order, and what happens to plug-ins that fail.

A plug-in that raises, or takes too long, is switched off for the rest of the cycle, and the question is asked again
without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from unisono.cluster.podclass import PodClass
from unisono.engine.config import SchedulerConfig
from unisono.engine.config_flags import Flags
from unisono.engine.decisions import Violation
from unisono.engine.plugin import HOOK_FLAGS, Plugin, hooks_of
from unisono.engine.session import Session
from unisono.engine.stopwatch import Stopwatch, TooSlow

Lookup = Callable[[str], type[Plugin] | None]
Asked = list[tuple[Plugin, Callable[..., Any]]]
_Role = tuple[type[Plugin], Flags]
"""What decides which hooks of a plug-in are asked."""


def _role(plugin: Plugin) -> _Role:
    return type(plugin), plugin.config.flags


@lru_cache(maxsize=64)
def _asked(tiers: tuple[tuple[_Role, ...], ...]) -> tuple[tuple[str, int, tuple[int, ...]], ...]:
    """Hooks that are implemented and switched on: the hook, a tier that answers it, and who of the tier does.

    The same for every session of a configuration, so it is found out once.
    """
    found: dict[tuple[str, int], list[int]] = {}
    for at, tier in enumerate(tiers):
        for place, (plugin, flags) in enumerate(tier):
            for hook in hooks_of(plugin):
                if not HOOK_FLAGS[hook] or getattr(flags, HOOK_FLAGS[hook]):
                    found.setdefault((hook, at), []).append(place)
    return tuple((hook, at, tuple(places)) for (hook, at), places in found.items())


class SwitchedOff(Exception):
    """A plug-in raised and is asked no more: the question is to be put again."""


class Asking:
    """Opened plug-ins by tier.

    Attributes:
        tiers: plug-ins in configured order.
        failures: plug-ins that could not be built, raised or took too long.
        failed: their names.
        stopwatch: measures the calls.
        by_tier, flat: who implements a hook that is switched on, with the method to call.
        heard_singly: who wants to hear of each job that became Inqueue by itself.
        uncounted: who answers ``allocatable`` and not ``headroom``.
        generation: moves when a plug-in is switched off, so that what was computed with it can be dropped.

    """

    def __init__(self, config: SchedulerConfig, lookup: Lookup, stopwatch: Stopwatch | None = None) -> None:
        self.stopwatch = stopwatch or Stopwatch()
        self.failures: list[Violation] = []
        self.failed: set[str] = set()
        self.generation = 0
        self.tiers: list[list[Plugin]] = []
        for tier in config.tiers:
            plugins: list[Plugin] = []
            self.tiers.append(plugins)
            for option in tier:
                try:
                    found = lookup(option.name)
                    if found is not None:
                        plugins.append(found(option))
                        continue
                except Exception as error:
                    self._report(option.name, "could not be built", error)
                    continue
                self._report(option.name, "does not exist", None)
        self._resolve()

    def _resolve(self) -> None:
        """Sort the hooks that are implemented and switched on."""
        watched = self.stopwatch.watched
        self.by_tier: dict[str, list[Asked]] = {hook: [] for hook in HOOK_FLAGS}
        self.flat: dict[str, Asked] = {hook: [] for hook in HOOK_FLAGS}
        for hook, at, places in _asked(tuple(tuple(map(_role, tier)) for tier in self.tiers)):
            asked = [(plugin, watched(plugin, hook)) for plugin in map(self.tiers[at].__getitem__, places)]
            self.by_tier[hook].append(asked)
            self.flat[hook] += asked
        together = {plugin for plugin, _ in self.flat["enqueued_alike"]}
        self.heard_singly: Asked = [asked for asked in self.flat["enqueued"] if asked[0] not in together]
        self._shared: dict[tuple[str, ...], bool] = {}
        counted = {plugin for plugin, _ in self.flat["headroom"]}
        self.uncounted: Asked = [asked for asked in self.flat["allocatable"] if asked[0] not in counted]

    def plugins(self) -> list[Plugin]:
        """All plug-ins that are still on."""
        return [plugin for tier in self.tiers for plugin in tier]

    def has(self, hook: str) -> bool:
        """Whether anybody answers ``hook``."""
        return bool(self.flat[hook])

    def refusing(self) -> list[Plugin]:
        """Plug-ins with filters that placements change, in order."""
        asked = {plugin for hook in ("filter", "domain_filter") for plugin, _ in self.flat[hook]}
        return [plugin for plugin in self.plugins() if plugin in asked]

    def by_shape(self, *hooks: str) -> bool:
        """Whether everybody who answers one of ``hooks`` answers the same for jobs of the same shape."""
        known = self._shared.get(hooks)
        if known is None:
            known = self._shared[hooks] = all(plugin.by_shape for hook in hooks for plugin, _ in self.flat[hook])
        return known

    # ---- failures

    def switch_off(self, plugin: Plugin, hook: str, error: Exception) -> None:
        """Ask this plug-in nothing more in this cycle."""
        name = plugin.config.name
        if isinstance(error, TooSlow):
            self._report(name, str(error), None)
        else:
            self._report(name, f"failed in {hook}", error)
        self.tiers = [[other for other in tier if other is not plugin] for tier in self.tiers]
        self.generation += 1
        self._resolve()

    def _report(self, name: str, what: str, error: Exception | None) -> None:
        self.failed.add(name)
        detail = f": {type(error).__name__}: {error}" if error is not None else ""
        self.failures.append(Violation(f"plug-in {name}", f"plug-in {name} {what} and is off for this cycle{detail}"))

    def each(self, hook: str, *arguments: Any) -> None:
        """Notify everybody."""
        for plugin, method in self.flat[hook]:
            try:
                method(*arguments)
            except Exception as error:
                self.switch_off(plugin, hook, error)

    def open(self, session: Session) -> None:
        """Open every plug-in; one that fails is switched off."""
        self._lifecycle("open", session)

    def close(self, session: Session) -> None:
        """Close every plug-in."""
        self._lifecycle("close", session)

    def _lifecycle(self, hook: str, session: Session) -> None:
        for plugin in self.plugins():
            try:
                self.stopwatch.watched(plugin, hook)(session)
            except Exception as error:
                self.switch_off(plugin, hook, error)

    def silent(self, pod_class: PodClass, plugins: Sequence[Plugin]) -> set[Plugin]:
        """Those of ``plugins`` whose filter and score have nothing to say about a class in this session."""
        found: set[Plugin] = set()
        for plugin in plugins:
            try:
                if not plugin.concerns(pod_class):
                    found.add(plugin)
            except Exception as error:
                found.add(plugin)
                self.switch_off(plugin, "concerns", error)
        return found

    # ---- combinations

    def first(self, hook: str, *arguments: Any) -> Any:
        """First answer that is not None; None when all are."""
        for plugin, method in self.flat[hook]:
            try:
                answer = method(*arguments)
            except Exception as error:
                self.switch_off(plugin, hook, error)
                return self.first(hook, *arguments)
            if answer is not None:
                return answer
        return None

    def keys(self, hook: str, *item: Any) -> tuple[Any, ...]:
        """Keys of all plug-ins, in order."""
        keys = []
        for plugin, method in self.flat[hook]:
            try:
                keys.append(method(*item))
            except Exception as error:
                self.switch_off(plugin, hook, error)
                return self.keys(hook, *item)
        return tuple(keys)

    def ask(self, hook: str, plugin: Plugin, method: Callable[..., Any], *arguments: Any) -> Any:
        """One plug-in's answer; `SwitchedOff` when it raised."""
        try:
            return method(*arguments)
        except Exception as error:
            self.switch_off(plugin, hook, error)
            raise SwitchedOff from error
