"""The scheduler's configuration in a ConfigMap, where users of Volcano keep it; read wherever it exists.

It takes the place of the file or the default that the scheduler was started with, for as long as it exists. One that
cannot be used changes nothing: the configuration before it stays in force.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import eq

import structlog

from unisono.api.core import ConfigMap, ObjectReference
from unisono.api.keys import CONFIG_MAP_KEY, CONFIG_MAP_NAMES, CONFIG_MAP_NAMESPACE, CONFIG_MAP_SUFFIX
from unisono.api.kinds import CONFIG_MAPS
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.errors import ConfigError
from unisono.kube.client import Client, EventType
from unisono.kube.clock import Clock
from unisono.kube.reflector import Reflector
from unisono.scheduler.settings import ConfigSource, Loader

_log = structlog.get_logger(__name__)

# Where it may not be read it counts as absent, and is looked for again after so many seconds.
_ABSENT_SECONDS = 60.0


def holds_configuration(name: str) -> bool:
    """Whether a ConfigMap of this name is one in which users of Volcano keep the scheduler's configuration."""
    return name in CONFIG_MAP_NAMES or name.endswith(CONFIG_MAP_SUFFIX)


def precedence(name: str) -> tuple[int, str]:
    """Of several ConfigMaps the one with the least counts."""
    return (CONFIG_MAP_NAMES.index(name) if name in CONFIG_MAP_NAMES else len(CONFIG_MAP_NAMES)), name


class MappedConfig:
    """A source of configurations: those of ConfigMaps where there are any, else those of another source."""

    def __init__(self, base: ConfigSource, changed: Callable[[], None], load: Loader = load_config) -> None:
        """``changed`` is called when there is something new to poll for."""
        self._base, self._changed, self._load = base, changed, load
        self._maps: dict[str, tuple[ConfigMap, str]] = {}  # by name, with why it cannot be decoded
        self._read: tuple[str, str] | None = None
        self._config: SchedulerConfig | None = None
        self._error = ""

    @property
    def _map(self) -> ConfigMap | None:
        """The ConfigMap that counts."""
        return self._maps[min(self._maps, key=precedence)][0] if self._maps else None

    @property
    def error(self) -> str:
        """What is wrong with the newest configuration, empty when it is in use."""
        return self._base.error if self._map is None else self._error

    @error.setter
    def error(self, _text: str) -> None:
        """The ConfigMap's or the other source's own."""

    @property
    def text(self) -> str:
        """The newest configuration as it was read; empty where it could not be."""
        if self._map is None:
            return self._base.text
        return self._read[1] if self._read else ""

    @property
    def name(self) -> str:
        """Where the configuration stands, in words."""
        found = self._map
        return self._base.name if found is None else f"ConfigMap {CONFIG_MAP_NAMESPACE}/{found.metadata.name}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Which ConfigMaps have no effect, because another one comes before them."""
        unused = sorted(self._maps, key=precedence)[1:]
        return tuple(
            f"ConfigMap {name} has no effect: {self.name} comes before it; delete one of them" for name in unused
        )

    @property
    def reference(self) -> ObjectReference | None:
        """The object in which the configuration stands, for events."""
        found = self._map
        if found is None:
            return self._base.reference
        meta = found.metadata
        return ObjectReference(
            api_version=CONFIG_MAPS.api_version,
            kind=CONFIG_MAPS.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
        )

    def poll(self) -> SchedulerConfig:
        """The configuration to use now; the same object as long as nothing changed. Never raises."""
        return self._base.poll() if self._map is None or self._config is None else self._config

    def take(self, obj: ConfigMap, why: str = "") -> None:
        """A ConfigMap as it is now; ``why`` it cannot be decoded, or empty."""
        self._maps[obj.metadata.name] = obj, why
        self._look()

    def drop(self, name: str) -> None:
        """There is no ConfigMap of this name."""
        if self._maps.pop(name, None) is not None:
            self._look()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the ConfigMaps that exist."""
        return tuple(self._maps)

    def _look(self) -> None:
        """Read the ConfigMap that counts, where it is another one or has changed."""
        found = self._map
        if found is None:
            self._read = self._config = None
            self._error = ""
            _log.info("config.map_gone", kept=self._base.name)
            self._changed()
            return
        name, why = found.metadata.name, self._maps[found.metadata.name][1]
        try:
            text = text_of(found) if not why else ""
        except ConfigError as error:
            why = str(error)
        if why:
            self._read = None
            self._failed(why)
            return
        if (name, text) == self._read:
            return
        self._read = name, text
        try:
            self._config, self._error = self._load(text, CONFIG_MAP_KEY), ""
        except ConfigError as error:
            self._failed(str(error))
            return
        _log.info("config.reloaded", source=self.name)
        self._changed()

    def _failed(self, why: str) -> None:
        self._error = why
        _log.error("config.rejected", source=self.name, error=why, kept="the configuration before it")
        self._changed()


class _MapSink:
    """What one watch tells of the ConfigMaps that it is about."""

    def __init__(self, config: MappedConfig, concerns: Callable[[str], bool]) -> None:
        self._config, self._concerns = config, concerns

    def replace(self, objects: Sequence[ConfigMap], unread: Sequence[tuple[ConfigMap, str]] = ()) -> None:
        """These ConfigMaps exist, and no others."""
        found = [(one, "") for one in objects] + list(unread)
        held = {one.metadata.name: (one, why) for one, why in found if self._concerns(one.metadata.name)}
        for one, why in held.values():
            self._config.take(one, why)
        for name in self._config.names:
            if self._concerns(name) and name not in held:
                self._config.drop(name)

    def refuse(self, obj: ConfigMap, why: str) -> None:
        """A ConfigMap cannot be decoded."""
        if self._concerns(obj.metadata.name):
            self._config.take(obj, why)

    def apply(self, event_type: EventType, obj: ConfigMap) -> None:
        """A ConfigMap was made, changed or deleted."""
        name = obj.metadata.name
        if not self._concerns(name):
            return
        if event_type == "DELETED":
            self._config.drop(name)
        else:
            self._config.take(obj)


def key_of(config_map: ConfigMap) -> str:
    """The key that holds the configuration: Volcano's, or the only one that ends in ``.conf``; else Volcano's."""
    data = config_map.data or {}
    others = [key for key in data if key.endswith(".conf")]
    return others[0] if CONFIG_MAP_KEY not in data and len(others) == 1 else CONFIG_MAP_KEY


def text_of(config_map: ConfigMap, key: str = "") -> str:
    """The configuration in a ConfigMap, by default of the key that holds it.

    Raises:
        ConfigError: it has no such key.

    """
    data, key = config_map.data or {}, key or key_of(config_map)
    if key not in data:
        others = ", ".join(sorted(data)[:5])
        raise ConfigError(f"the ConfigMap has no key {key}" + (f"; it has {others}" if others else ""))
    return data[key]


def reflectors(
    client: Client, config: MappedConfig, clock: Clock, *, any_release: bool = False
) -> list[Reflector[ConfigMap]]:
    """The watches that feed a `MappedConfig`.

    An installation may read the ConfigMaps of the two fixed names only, so each has a watch of its own; those of
    releases of other names take the right to read all of the namespace.
    """

    def others(name: str) -> bool:
        return holds_configuration(name) and name not in CONFIG_MAP_NAMES

    def watch(concerns: Callable[[str], bool], selector: str) -> Reflector[ConfigMap]:
        return Reflector(
            client,
            CONFIG_MAPS,
            _MapSink(config, concerns),
            namespace=CONFIG_MAP_NAMESPACE,
            field_selector=selector,
            clock=clock,
            absent_seconds=_ABSENT_SECONDS,
        )

    named = [watch(partial(eq, name), f"metadata.name={name}") for name in CONFIG_MAP_NAMES]
    return [*named, watch(others, "")] if any_release else named


# What to tell the author of a ConfigMap that holds the scheduler's configuration (pure).

INSTALLED_NAME = "unisono-scheduler"
"""Name of the ConfigMap that an installation brings with the scheduler."""
INSTALLED_KEY = "unisono-scheduler.conf"


def concerns(name: str) -> bool:
    """Whether a ConfigMap of this name is meant to hold the scheduler's configuration."""
    return name == INSTALLED_NAME or holds_configuration(name)


def advice(config_map: ConfigMap) -> list[str]:
    """Sentences for its author: what is wrong, has no effect, or will not be read at all.

    Plug-ins that are named as ``module:Class`` are not imported: only the scheduler has to have them.
    """
    meta = config_map.metadata
    if not concerns(meta.name):
        return []
    installed = meta.name == INSTALLED_NAME
    key = INSTALLED_KEY if installed else key_of(config_map)
    if installed and key not in (config_map.data or {}):
        return []
    told = []
    if not installed and meta.namespace != CONFIG_MAP_NAMESPACE:
        told.append(f"the scheduler reads {meta.name} in namespace {CONFIG_MAP_NAMESPACE} only")
    elif not installed and meta.name not in CONFIG_MAP_NAMES:
        told.append(
            f"a scheduler that may read only what it must reads {' and '.join(CONFIG_MAP_NAMES)} alone: give "
            f"{meta.name} one of these names"
        )
    try:
        notes = load_config(text_of(config_map, key), key, imports=False).notes
    except ConfigError as error:
        return [*told, f"the scheduler will not use this configuration: {error}"]
    return [*told, *(f"{key}: {note}" for note in notes)]
