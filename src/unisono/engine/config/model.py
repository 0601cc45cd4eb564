"""The scheduler's configuration: which actions run, and which plug-ins vote in which tier.

Plain data; `unisono.engine.config_file.reader` reads it from a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from unisono.api.times import duration_or_none, parse_duration
from unisono.engine.config.arguments import Argument, Flags, argument_value, is_true
from unisono.errors import ConfigError

# The ``metrics`` section of a configuration: where node load comes from, with Volcano's keys.

TYPES = ("prometheus", "prometheus_adaptor", "elasticsearch")
_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))


@dataclass(frozen=True, slots=True)
class MetricsSource:
    """A source of node load.

    Attributes:
        type: one of `TYPES`.
        address: ``http://`` or ``https://`` URL; empty for the adaptor, which the API server knows.
        interval: seconds between two collections.
        insecure: accept any certificate.
        index, host_field: of Elasticsearch.
        user, password: for it, empty without.
    """

    type: str
    address: str
    interval: float = 30.0
    insecure: bool = False
    index: str = "metricbeat-*"
    host_field: str = "host.hostname"
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"MetricsSource({self.type}, {self.address})"


def metrics_source(given: Mapping[str, str]) -> MetricsSource | None:
    """The source that the section names; None when it names none.

    Raises:
        ConfigError: ``key`` names the entry that is wrong.
    """
    kind = given.get("type", "")
    if not kind:
        return None
    if kind not in TYPES:
        raise ConfigError(f"type of metrics must be one of {', '.join(TYPES)}, not {kind}", key="type")
    address = given.get("address", "").rstrip("/")
    if kind != "prometheus_adaptor" and not address.startswith(("http://", "https://")):
        example = "http://prometheus.monitoring:9090" if kind == "prometheus" else "http://elasticsearch.logging:9200"
        raise ConfigError(f"address of metrics must be a URL such as {example}", key="address")
    interval = duration_or_none(given.get("interval") or "30s")
    if interval is None or interval <= 0:
        raise ConfigError("interval of metrics must be a duration above 0 such as 30s", key="interval")
    return MetricsSource(
        kind,
        address,
        interval,
        given.get("tls.insecureSkipVerify", "") in _TRUE,
        given.get("elasticsearch.index") or "metricbeat-*",
        given.get("elasticsearch.hostnameFieldName") or "host.hostname",
        given.get("elasticsearch.username", ""),
        given.get("elasticsearch.password", ""),
    )


# Names that a Volcano configuration may use, and what this version knows about them.
#
# Which actions and plug-ins exist is decided by their registries alone; the list here only tells a name that Volcano
# (or a later version) knows from a typing mistake.

KNOWN_ACTIONS = frozenset(
    ["enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle", "defragment"]
)

_CACHE = Argument("predicateErrorCacheEnable", "bool", True, "keep filter failures per role", effective=False)
_GANG_EVICTION = (
    Argument("maxDomains", "int", 8, "HyperNodes tried at most"),
    Argument("allowWholeBundle", "bool", True, "a whole gang may be evicted at once"),
)

PLUGINS_SECTION = "plugins"
"""Name of the entry of ``configurations`` that is not for an action but for all plug-ins."""

VERDICTS_SECTION = "verdicts"
"""The same for what verdicts tell."""

OTHER_SECTIONS = {PLUGINS_SECTION: "the plug-ins", VERDICTS_SECTION: "the verdicts"}
"""Entries of ``configurations`` that are for no action, and what messages call them."""

ACTION_ARGUMENTS: dict[str, tuple[Argument, ...]] = {
    "allocate": (_CACHE,),
    "backfill": (_CACHE,),
    "reclaim": (_CACHE,),
    "preempt": (
        _CACHE,
        Argument("enableTopologyAwarePreemption", "bool", False, "try the eviction before it is decided"),
        Argument("topologyAwarePreemptWorkerNum", "int", 16, "parallel trials"),
        Argument("minCandidateNodesPercentage", "int", 10, "share of nodes tried at least"),
        Argument("minCandidateNodesAbsolute", "int", 1, "nodes tried at least"),
        Argument("maxCandidateNodesAbsolute", "int", 100, "nodes tried at most"),
    ),
    "gangpreempt": _GANG_EVICTION,
    "gangreclaim": _GANG_EVICTION,
    "defragment": (
        Argument("maxMoves", "int", 10, "pods moved for one gang at most"),
        Argument("maxGangs", "int", 1, "gangs helped in one cycle at most"),
        Argument("minRunTime", "duration", "10m", "how long a pod must have run before it is moved"),
        Argument("maxLostTime", "duration", "1h", "a pod that would lose more than this since its checkpoint stays"),
        Argument("interval", "duration", "1m", "least time between two plans"),
        Argument("maxDomains", "int", 4, "HyperNodes tried at most"),
    ),
    PLUGINS_SECTION: (Argument("timeLimit", "duration", "1s", "time that a plug-in that is not built in may take"),),
    VERDICTS_SECTION: (
        Argument(
            "names",
            "text",
            "all",
            "whose jobs and pods a verdict names: all, or namespace",
            choices=("all", "namespace"),
        ),
    ),
}

METRICS_KEYS: dict[str, str] = {
    "type": "prometheus, prometheus_adaptor or elasticsearch; absent: node load is not collected",
    "address": "where the source listens",
    "interval": "time between two collections, 30s by default",
    "tls.insecureSkipVerify": "true: accept any certificate",
    "elasticsearch.index": "index name, metricbeat-* by default",
    "elasticsearch.username": "user",
    "elasticsearch.password": "password",
    "elasticsearch.hostnameFieldName": "field with the node name, host.hostname by default",
}

FIRST: Final = ("budgets",)
"""Plug-ins for words of Unisono alone, of which a configuration made for Volcano knows nothing: they join one that does
not list them. This one comes before all others, as it puts jobs last."""
LAST: Final = ("user-limits", "failed-nodes", "hot-spares", "calendar", "node-checks", "one-of")
"""The same behind all others: they only refuse."""

DEFAULT_PLUGIN_TIME = 1.0
"""Seconds per cycle that a plug-in that is not built in may take."""


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """One configured plug-in.

    Attributes:
        name: the plug-in's name in the registry.
        flags: resolved switches; the session consults no hook whose switch is off.
        arguments: the ``arguments`` map as written (checked for key and type when read from a file).
        where_used: it takes part only where objects ask for what it does (``NAME.AutoEnable``).
    """

    name: str
    flags: Flags = field(default_factory=Flags)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    where_used: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "where_used", is_true(self.arguments.get(f"{self.name}.AutoEnable")))


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """A complete configuration.

    Attributes:
        actions: action names in the order in which a cycle runs them.
        tiers: plug-ins by tier, in order.
        action_arguments: arguments of actions, by action name, and those of all plug-ins under ``plugins`` and
            of verdicts under ``verdicts`` (the file's ``configurations``).
        metrics: where node load comes from (the file's ``metrics``), flat strings.
        bind_concurrency: binds under way at a time; 0 leaves that to the program.
        notes: what the writer of the file should know although it can be used, one sentence each.
        joins: the plug-ins of `FIRST` and `LAST` that are not listed take part once an object needs them.
        in_force: the tiers with these plug-ins.
    """

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginConfig, ...], ...]
    action_arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    bind_concurrency: int = 0
    notes: tuple[str, ...] = ()
    joins: bool = False
    in_force: tuple[tuple[PluginConfig, ...], ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "in_force", self._with_joining() if self.joins else self.tiers)

    def _with_joining(self) -> tuple[tuple[PluginConfig, ...], ...]:
        listed = {plugin.name for tier in self.tiers for plugin in tier}
        first, last = (
            tuple(PluginConfig(name, arguments={f"{name}.AutoEnable": True}) for name in names if name not in listed)
            for names in (FIRST, LAST)
        )
        head, *others = self.tiers or ((),)
        *before, end = ((*first, *head), *others)
        return (*before, (*end, *last))

    @property
    def plugins(self) -> tuple[PluginConfig, ...]:
        """All plug-ins that are listed, in the order in which they are opened."""
        return tuple(plugin for tier in self.tiers for plugin in tier)

    @property
    def parts(self) -> frozenset[str]:
        """Names of all actions and plug-ins, as `unisono.api.bounds` asks for them."""
        return frozenset((*self.actions, *(plugin.name for tier in self.in_force for plugin in tier)))

    @property
    def plugin_time_limit(self) -> float:
        """Seconds that a plug-in that is not built in may take per cycle."""
        text = self.action_arguments.get(PLUGINS_SECTION, {}).get("timeLimit")
        return DEFAULT_PLUGIN_TIME if text is None else parse_duration(text)

    @property
    def names_others(self) -> bool:
        """Whether what a job's owner is told names jobs and pods of other namespaces."""
        return self.action_arguments.get(VERDICTS_SECTION, {}).get("names") != "namespace"

    def arguments_of(self, action: str) -> Mapping[str, Any]:
        """Arguments of one action; empty when none are given."""
        return self.action_arguments.get(action, {})


def from_flags(
    actions: Sequence[str],
    tiers: Sequence[Sequence[Mapping[str, Any]]],
    configurations: Sequence[Mapping[str, Any]] = (),
) -> SchedulerConfig:
    """A configuration in which an absent flag is off, as programs (and recorded cases) state it.

    Args:
        actions: action names in order.
        tiers: per tier its plug-ins, each ``{"name": ..., "<flag key>": bool, ..., "arguments": {...}}``.
        configurations: ``{"name": action, "arguments": {...}}``; the first entry of a name counts.
    """
    arguments: dict[str, Mapping[str, Any]] = {}
    for entry in configurations:
        arguments.setdefault(entry["name"], entry.get("arguments") or {})
    return SchedulerConfig(
        actions=tuple(actions),
        tiers=tuple(tuple(_plugin_from_flags(plugin) for plugin in tier) for tier in tiers),
        action_arguments=arguments,
    )


def _plugin_from_flags(plugin: Mapping[str, Any]) -> PluginConfig:
    switched = {key: bool(value) for key, value in plugin.items() if key not in ("name", "arguments")}
    return PluginConfig(plugin["name"], Flags.all_off(switched), plugin.get("arguments") or {})


# Which fields of a Queue a configuration enforces.

DESERVED = Argument(
    "proportion.deserved", "bool", False, "what queues, and queues above them, deserve is theirs before weights count"
)
"""An argument of ``proportion``."""
_BY_PLUGIN = {
    "proportion": ("weight", "guarantee", "priority"),
    "capacity": ("deserved", "guarantee", "priority"),
    "nodegroup": ("affinity",),
}


def enforced_queue_fields(config: SchedulerConfig) -> tuple[str, ...]:
    """Names as in `unisono.api.queues`, in order; ``capability`` always holds and is not named."""
    fields: set[str] = set()
    for plugin in config.plugins:
        fields.update(_BY_PLUGIN.get(plugin.name, ()))
        if plugin.name == "capacity" and plugin.flags.hierarchy:
            fields.add("parent")
        if plugin.name == "proportion" and argument_value(DESERVED, plugin.arguments):
            fields.update(("deserved", "parent"))
    return tuple(sorted(fields))
