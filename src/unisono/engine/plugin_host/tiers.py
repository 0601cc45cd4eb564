"""Which plug-ins are asked each hook, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from unisono.cluster.podclass import PodClass
from unisono.engine.answers import Failure, Refusal, Vote
from unisono.engine.config.arguments import Flags
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.engine.contract.plugin import HOOK_FLAGS, Lookup, Plugin
from unisono.engine.decisions import Violation
from unisono.engine.plugin_host.guarded_calls import Guard
from unisono.engine.plugin_host.stopwatch import Stopwatch, TooSlow, is_hosted
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session

T = TypeVar("T")
Asked = list[tuple[Plugin, Callable[..., Any]]]
_Role = tuple[type[Plugin], Flags]
"""What decides which hooks of a plug-in are asked."""


def _role(plugin: Plugin) -> _Role:
    return type(plugin), plugin.config.flags


@lru_cache(maxsize=64)
def _places(tiers: tuple[tuple[_Role, ...], ...]) -> Mapping[str, Sequence[tuple[int, int]]]:
    """Where each hook that is implemented and switched on has its plug-ins: pairs of a tier and a place in it.

    The same for every session of a configuration, so it is found out once.
    """
    places: dict[str, list[tuple[int, int]]] = {hook: [] for hook in HOOK_FLAGS}
    for at, tier in enumerate(tiers):
        for place, (plugin, flags) in enumerate(tier):
            for hook in plugin.implemented:
                if not HOOK_FLAGS[hook] or getattr(flags, HOOK_FLAGS[hook]):
                    places[hook].append((at, place))
    return places


class _ByHook(dict[str, T]):
    """What belongs to each hook, made when first asked for: an idle cycle asks few of them."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make

    def __missing__(self, hook: str) -> T:
        made = self[hook] = self._make(hook)
        return made


class Broken(Plugin):
    """Stands for a plug-in that cannot be imported: nothing is known of it but that it may be one that refuses."""

    by_shape = True

    def enqueueable(self, job: JobState) -> Vote | Refusal:
        """Refused, because the plug-in cannot be asked."""
        return Vote.ABSTAIN

    def valid(self, job: JobState) -> Refusal | None:
        """Refused, because the plug-in cannot be asked."""
        return None


class PluginTiers:
    """Plug-ins by tier, and their hooks, each behind the guarded call.

    Attributes:
        tiers: plug-ins in configured order.
        guard: makes the calls.
        missing_plugins: names that no plug-in has.
        failed: names of the plug-ins that are asked nothing in this cycle.
        incomplete: one of them exists, so that the next cycle may ask it again.
        stopwatch: measures the calls.
        by_tier, flat: plug-ins that implement a hook that is switched on, with the guarded method to call.
    """

    def __init__(
        self, config: SchedulerConfig, lookup: Lookup, session: Session, stopwatch: Stopwatch | None = None
    ) -> None:
        """Make the plug-ins that take part in ``session``."""
        self.stopwatch = stopwatch or Stopwatch()
        self.guard = Guard(self.stopwatch)
        self.missing_plugins: list[str] = []
        self.tiers: list[list[Plugin]] = []
        for tier in config.in_force:
            plugins = [self._built(option, lookup, session) for option in tier]
            self.tiers.append([plugin for plugin in plugins if plugin is not None])
        self._queries: dict[tuple[Plugin, str], Callable[..., Any]] = {}
        self._resolve()

    def _built(self, option: PluginConfig, lookup: Lookup, session: Session) -> Plugin | None:
        """A plug-in; one that fails in that is asked nothing, and what it would refuse is refused."""
        try:
            plugin_class = lookup(option.name)
        except BaseException as error:
            broken = Broken(option)
            self.guard.kill(broken, "import", error)
            return broken
        if plugin_class is None:
            self.missing_plugins.append(option.name)
            return None
        try:
            if option.where_used and not plugin_class.used(session):
                return None
            return plugin_class(option)
        except BaseException as error:
            unbuilt: Plugin = object.__new__(plugin_class)
            Plugin.__init__(unbuilt, option)
            self.guard.kill(unbuilt, "construction", error)
            return unbuilt

    def _resolve(self) -> None:
        """Find the plug-ins that are asked each hook, and those that are asked nothing."""
        self._where: Mapping[str, Sequence[tuple[int, int]]] | None = None
        self.flat: Mapping[str, Asked] = _ByHook(self._in_order)
        self.by_tier: Mapping[str, list[Asked]] = _ByHook(self._answering)
        self._shared: dict[tuple[str, ...], bool] = {}
        self._answering_any: dict[tuple[str, ...], list[Plugin]] = {}
        self._with_own: dict[str, list[tuple[Plugin, Callable[..., Any]]]] = {}
        self.incomplete = self.guard.any_dead()
        self.failed = set(self.missing_plugins)
        if self.incomplete:
            self.failed.update(plugin.config.name for plugin in self.plugins() if self.guard.dead(plugin))

    def _in_order(self, hook: str) -> Asked:
        tiers, call = self.tiers, self.guard.call
        return [(plugin := tiers[at][place], call(plugin, hook)) for at, place in self._places_of(hook)]

    def _places_of(self, hook: str) -> Sequence[tuple[int, int]]:
        if self._where is None:
            self._where = _places(tuple([tuple(map(_role, tier)) for tier in self.tiers]))
        return self._where[hook]

    def _answering(self, hook: str) -> list[Asked]:
        by_tier: dict[int, Asked] = {}
        for (at, _), asked in zip(self._places_of(hook), self.flat[hook], strict=True):
            by_tier.setdefault(at, []).append(asked)
        return list(by_tier.values())

    def plugins(self) -> list[Plugin]:
        """All plug-ins."""
        return [plugin for tier in self.tiers for plugin in tier]

    def alive(self) -> list[Plugin]:
        """Those that are asked in this cycle: what has failed is not any more."""
        return [plugin for plugin in self.plugins() if not self.guard.dead(plugin)]

    def answering(self, *hooks: str) -> list[Plugin]:
        """Plug-ins that answer one of ``hooks``, each once."""
        plugins = self._answering_any.get(hooks)
        if plugins is None:
            unique = dict.fromkeys(plugin for hook in hooks for plugin, _ in self.flat[hook])
            plugins = self._answering_any[hooks] = list(unique)
        return plugins

    def has(self, hook: str) -> bool:
        """Whether a plug-in answers ``hook``."""
        return bool(self.flat[hook])

    def hosted(self, hook: str) -> bool:
        """Whether a plug-in that is not built in answers ``hook``."""
        return any(is_hosted(plugin) for plugin, _ in self.flat[hook])

    def hosts_any(self) -> bool:
        """Whether a plug-in is not built in."""
        return any(map(is_hosted, self.plugins()))

    def refusing(self) -> list[Plugin]:
        """Plug-ins with filters that placements change, in order."""
        asked = {plugin for hook in ("filter", "domain_filter") for plugin, _ in self.flat[hook]}
        return [plugin for plugin in self.plugins() if plugin in asked]

    def by_shape(self, *hooks: str) -> bool:
        """Whether every plug-in that answers one of ``hooks`` answers the same for jobs of the same shape."""
        uniform = self._shared.get(hooks)
        if uniform is None:
            uniform = self._shared[hooks] = all(plugin.by_shape for hook in hooks for plugin, _ in self.flat[hook])
        return uniform

    def by_rank(self, *hooks: str) -> bool:
        """Whether of jobs of the same shape none that comes later gets more from one of ``hooks`` than those before."""
        key = ("by rank", *hooks)
        ranked = self._shared.get(key)
        if ranked is None:
            asked = (plugin for hook in hooks for plugin, _ in self.flat[hook])
            ranked = self._shared[key] = all(plugin.by_shape or plugin.by_rank for plugin in asked)
        return ranked

    def hears_placements(self) -> bool:
        """Whether a plug-in wants to hear of each pod that is placed."""
        return any(not plugin.moved_by_evictions for plugin, _ in self.flat["moved"])

    # ---- failures

    def failure_of(self, job: JobState) -> Failure | None:
        """The failure for which something that a job needs was refused."""
        return self.guard.failure_of(job)

    def violations(self) -> list[Violation]:
        """What failed, in words: each hook of a plug-in once."""
        problems = [
            Violation(f"plug-in {name}", f"plug-in {name} does not exist and is left out", plugin=name)
            for name in self.missing_plugins
        ]
        first: dict[tuple[str, str], Failure] = {}
        number: Counter[tuple[str, str]] = Counter()
        for failure in self.guard.failures:
            first.setdefault((failure.plugin, failure.hook), failure)
            number[failure.plugin, failure.hook] += 1
        for key, failure in first.items():
            more = f" (and {number[key] - 1} more)" if number[key] > 1 else ""
            problems.append(Violation(f"plug-in {failure.plugin}", f"{failure.message()}{more}", plugin=failure.plugin))
        return problems

    # ---- lifecycle

    def open(self, session: Session) -> None:
        """Open every plug-in; one that fails is asked nothing, and what it would refuse is refused."""
        self.guard.session = session
        if self._lifecycle("open", session):
            self._resolve()

    def close(self, session: Session) -> None:
        """Close every plug-in; what comes later in the cycle is still asked of one that fails in that."""
        self._lifecycle("close", session)

    def _lifecycle(self, hook: str, session: Session) -> bool:
        """Whether a plug-in failed."""
        failed = False
        clock, limit = self.stopwatch.monotonic, self.stopwatch.limit
        for plugin in sorted(self.plugins(), key=lambda plugin: plugin.divides):
            if getattr(type(plugin), hook) is getattr(Plugin, hook):
                if clock is not None:
                    self.stopwatch.watched(plugin, hook)  # it took no time
                continue
            if self.guard.dead(plugin):
                continue
            started = clock() if clock is not None else 0.0
            try:
                self.stopwatch.watched(plugin, hook)(session)
                taken = clock() - started if clock is not None else 0.0
                if taken > limit and is_hosted(plugin):
                    raise TooSlow(taken, limit)
            except BaseException as error:
                failed = True
                if hook == "open":
                    self.guard.kill(plugin, hook, error)
                else:
                    self.guard.note_part(plugin, hook, error)
        return failed

    # ---- single questions

    def query(self, plugin: Plugin, what: str, pod_class: PodClass) -> Any:
        """What a plug-in says of itself and a class: ``concerns``, ``is_pure``, ``stamp``, ..."""
        return self.question(plugin, what)(pod_class)

    def question(self, plugin: Plugin, what: str) -> Callable[..., Any]:
        """What `query` calls with a class."""
        method = self._queries.get((plugin, what))
        if method is None:
            kind, alive = type(plugin), not self.guard.dead(plugin)
            default = alive and getattr(kind, what) is getattr(Plugin, what)  # which does not fail
            method = getattr(plugin, what) if default else self.guard.call(plugin, what)
            self._queries[plugin, what] = method
        return method

    def own(self, what: str) -> list[tuple[Plugin, Callable[..., Any]]]:
        """Plug-ins that do not leave what `query` asks to the contract's answer, with what it calls."""
        questions = self._with_own.get(what)
        if questions is None:
            default = getattr(Plugin, what)
            chosen = (
                each for each in self.plugins() if getattr(type(each), what) is not default or self.guard.dead(each)
            )
            questions = self._with_own[what] = [(plugin, self.question(plugin, what)) for plugin in chosen]
        return questions

    def silent(self, pod_class: PodClass, plugins: Sequence[Plugin]) -> set[Plugin]:
        """Those of ``plugins`` whose filter and score have nothing to say about a class in this session."""
        return {plugin for plugin, concerns in self.own("concerns") if plugin in plugins and not concerns(pod_class)}

    def pure(self, pod_class: PodClass, plugins: Sequence[Plugin]) -> bool:
        """Whether the answers of ``plugins`` about a class depend on a node's amounts alone."""
        purity_checks = {plugin: is_pure for plugin, is_pure in self.own("is_pure") if plugin in plugins}
        return all(purity_checks[plugin](pod_class) if plugin in purity_checks else plugin.pure for plugin in plugins)

    # ---- combinations

    def each(self, hook: str, *arguments: Any) -> None:
        """Notify every plug-in."""
        for _, method in self.flat[hook]:
            method(*arguments)

    def first(self, hook: str, *arguments: Any) -> Any:
        """First answer that is not None; None when all are."""
        for _, method in self.flat[hook]:
            answer = method(*arguments)
            if answer is not None:
                return answer
        return None

    def keys(self, hook: str, *item: Any) -> tuple[Any, ...]:
        """Keys of all plug-ins, in order."""
        return tuple([method(*item) for _, method in self.flat[hook]])

    def columns(self, hook: str, items: Sequence[Any]) -> list[list[Any]]:
        """Keys of all plug-ins, in order: for each plug-in those of all items."""
        return [self.guard.each(plugin, hook, method, items) for plugin, method in self.flat[hook]]
