"""The scheduler's configuration on a hub: the one file, with what whole gangs in one cluster rest on."""

from __future__ import annotations

from dataclasses import replace

from unisono.api.core import ObjectReference
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.scheduler.settings import ConfigSource, FixedConfig

TOPOLOGY = "network-topology-aware"
"""The plug-in that keeps gangs within their domain; clusters are domains."""

PREFERENCE = "cluster-preference"
"""The plug-in that knows what policies, data and users prefer."""

_WHOLE_GANGS = {"preempt": "gangpreempt", "reclaim": "gangreclaim"}
"""Actions that make room pod by pod, and those that make it within one domain, which is what a hub's gangs need."""


def for_hub(config: SchedulerConfig) -> SchedulerConfig:
    """The configuration with what gangs in one cluster need, where it does not have it.

    That is the plug-in that bounds them, the one by which policies choose among clusters, and for each action that
    evicts its form for whole gangs in one domain.
    """
    actions: list[str] = []
    for action in config.actions:
        wanted = _WHOLE_GANGS.get(action, action)
        if wanted == action or wanted not in config.actions:
            actions.append(wanted)
    known = {plugin.name for plugin in config.plugins}
    missing = tuple(PluginConfig(name) for name in (TOPOLOGY, PREFERENCE) if name not in known)
    tiers = (*config.tiers, missing) if missing else config.tiers
    return replace(config, actions=tuple(actions), tiers=tiers)


class HubConfig:
    """A source of configurations, each as a hub needs it."""

    def __init__(self, source: ConfigSource | None = None) -> None:
        self._source = source or FixedConfig()
        self._seen: SchedulerConfig | None = None
        self._made: SchedulerConfig | None = None

    @property
    def error(self) -> str:
        """What is wrong with the newest configuration, empty when it is in use."""
        return self._source.error

    @error.setter
    def error(self, _text: str) -> None:
        """The source's own."""

    @property
    def name(self) -> str:
        """Where the configuration stands, in words."""
        return self._source.name

    @property
    def reference(self) -> ObjectReference | None:
        """The object of the API in which it stands."""
        return self._source.reference

    def poll(self) -> SchedulerConfig:
        """The configuration to use now; the same object as long as nothing changed."""
        config = self._source.poll()
        if self._made is None or config is not self._seen:
            self._seen, self._made = config, for_hub(config)
        return self._made
