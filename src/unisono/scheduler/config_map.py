"""The scheduler's configuration in a ConfigMap, where users of Volcano keep it; read wherever it exists.

It takes the place of the file or the default that the scheduler was started with, for as long as it exists. One that
cannot be used changes nothing: the configuration before it stays in force.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from unisono.api.core import ConfigMap, ObjectReference
from unisono.api.keys import CONFIG_MAP_KEY, CONFIG_MAP_NAME, CONFIG_MAP_NAMESPACE
from unisono.api.kinds import CONFIG_MAPS
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.errors import ConfigError
from unisono.kube.client import Client, EventType
from unisono.kube.clock import Clock
from unisono.kube.reflector import Reflector
from unisono.scheduler.settings import ConfigSource, Loader

_log = structlog.get_logger(__name__)

FIELD_SELECTOR = f"metadata.name={CONFIG_MAP_NAME}"
# Where it may not be read it counts as absent, and is looked for again after so many seconds.
_ABSENT_SECONDS = 60.0


class MappedConfig:
    """A source of configurations: the ConfigMap's where there is one, else those of another source.

    It is the sink of the ConfigMap's watch, too.
    """

    def __init__(self, base: ConfigSource, changed: Callable[[], None], load: Loader = load_config) -> None:
        """``changed`` is called when there is something new to poll for."""
        self._base, self._changed, self._load = base, changed, load
        self._map: ConfigMap | None = None
        self._text: str | None = None
        self._config: SchedulerConfig | None = None
        self._error = ""

    @property
    def error(self) -> str:
        """What is wrong with the newest configuration, empty when it is in use."""
        return self._base.error if self._map is None else self._error

    @error.setter
    def error(self, _text: str) -> None:
        """The ConfigMap's or the other source's own."""

    @property
    def name(self) -> str:
        """Where the configuration stands, in words."""
        return self._base.name if self._map is None else f"ConfigMap {CONFIG_MAP_NAMESPACE}/{CONFIG_MAP_NAME}"

    @property
    def reference(self) -> ObjectReference | None:
        """The object in which the configuration stands, for events."""
        if self._map is None:
            return self._base.reference
        meta = self._map.metadata
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

    def replace(self, objects: Sequence[ConfigMap], unread: Sequence[tuple[ConfigMap, str]] = ()) -> None:
        """The ConfigMap as it is now, or none."""
        for one, why in unread:
            self.refuse(one, why)
        if objects:
            self.apply("MODIFIED", objects[0])
        elif not unread and self._map is not None:
            self.apply("DELETED", self._map)

    def refuse(self, obj: ConfigMap, why: str) -> None:
        """The ConfigMap cannot be decoded."""
        self._map, self._text = obj, None
        self._failed(why)

    def apply(self, event_type: EventType, obj: ConfigMap) -> None:
        """The ConfigMap was made, changed or deleted."""
        if event_type == "DELETED":
            self._map = self._text = self._config = None
            self._error = ""
            _log.info("config.map_gone", kept=self._base.name)
            self._changed()
            return
        self._map = obj
        try:
            text = text_of(obj)
            if text == self._text:
                return
            self._text = text
            self._config, self._error = self._load(text, CONFIG_MAP_KEY), ""
            _log.info("config.reloaded", source=self.name)
            self._changed()
        except ConfigError as error:
            self._failed(str(error))

    def _failed(self, message: str) -> None:
        self._error = message
        _log.error("config.rejected", source=self.name, error=message, kept="the configuration before it")
        self._changed()


def text_of(config_map: ConfigMap, key: str = CONFIG_MAP_KEY) -> str:
    """The configuration in a ConfigMap.

    Raises:
        ConfigError: it has no such key.

    """
    data = config_map.data or {}
    if key not in data:
        others = ", ".join(sorted(data)[:5])
        raise ConfigError(f"the ConfigMap has no key {key}" + (f"; it has {others}" if others else ""))
    return data[key]


def reflector(client: Client, sink: MappedConfig, clock: Clock) -> Reflector[ConfigMap]:
    """The watch that feeds a `MappedConfig`."""
    return Reflector(
        client,
        CONFIG_MAPS,
        sink,
        namespace=CONFIG_MAP_NAMESPACE,
        field_selector=FIELD_SELECTOR,
        clock=clock,
        absent_seconds=_ABSENT_SECONDS,
    )


# What to tell the author of a ConfigMap that holds the scheduler's configuration (pure).

INSTALLED_NAME = "unisono-scheduler"
"""Name of the ConfigMap that an installation brings with the scheduler."""
INSTALLED_KEY = "unisono-scheduler.conf"
_KEYS = {CONFIG_MAP_NAME: CONFIG_MAP_KEY, INSTALLED_NAME: INSTALLED_KEY}


def concerns(name: str) -> bool:
    """Whether a ConfigMap of this name is meant to hold the scheduler's configuration."""
    return name in _KEYS


def advice(config_map: ConfigMap) -> list[str]:
    """Sentences for its author: what is wrong, has no effect, or will not be read at all.

    Plug-ins that are named as ``module:Class`` are not imported: only the scheduler has to have them.
    """
    meta = config_map.metadata
    key = _KEYS.get(meta.name)
    if key is None or (meta.name == INSTALLED_NAME and key not in (config_map.data or {})):
        return []
    told = []
    if meta.name == CONFIG_MAP_NAME and meta.namespace != CONFIG_MAP_NAMESPACE:
        told.append(f"the scheduler reads {meta.name} in namespace {CONFIG_MAP_NAMESPACE} only")
    try:
        notes = load_config(text_of(config_map, key), key, imports=False).notes
    except ConfigError as error:
        return [*told, f"the scheduler will not use this configuration: {error}"]
    return [*told, *(f"{key}: {note}" for note in notes)]
