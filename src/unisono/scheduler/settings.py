"""The scheduler's configuration: where it comes from, how it changes, and who is told what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any, Protocol

import structlog

from unisono.api.core import ConfigMap, ObjectReference
from unisono.api.keys import CONFIG_MAP_KEY, CONFIG_MAP_NAMES, CONFIG_MAP_NAMESPACE, CONFIG_MAP_SUFFIX
from unisono.api.kinds import CONFIG_MAPS
from unisono.cluster.recent import Setback
from unisono.cluster.records import Job
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import default_config, load_config
from unisono.engine.plugins.registry import fresh_code, is_code
from unisono.errors import ConfigError
from unisono.kube.client import Client, EventType
from unisono.kube.clock import Clock
from unisono.kube.events import EventRecorder
from unisono.kube.pace import Backoff
from unisono.kube.reflector import Reflector
from unisono.scheduler.metrics import Metrics

# The scheduler's configuration in a ConfigMap, where users of Volcano keep it; read wherever it exists.
#
# It takes the place of the file or the default that the scheduler was started with, for as long as it exists. One that
# cannot be used changes nothing: the configuration before it stays in force.

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

    def __init__(self, base: ConfigSource, changed: Callable[[], None]) -> None:
        """``changed`` is called when there is something new to poll for."""
        self._base, self._changed = base, changed
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
        config_map = self._map
        return self._base.name if config_map is None else f"ConfigMap {CONFIG_MAP_NAMESPACE}/{config_map.metadata.name}"

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
        config_map = self._map
        if config_map is None:
            return self._base.reference
        meta = config_map.metadata
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
        config_map = self._map
        if config_map is None:
            self._read = self._config = None
            self._error = ""
            _log.info("config.map_gone", kept=self._base.name)
            self._changed()
            return
        name, why = config_map.metadata.name, self._maps[config_map.metadata.name][1]
        try:
            text = text_of(config_map) if not why else ""
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
            self._config, self._error = load_config(text, CONFIG_MAP_KEY), ""
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
        entries = [(one, "") for one in objects] + list(unread)
        held = {one.metadata.name: (one, why) for one, why in entries if self._concerns(one.metadata.name)}
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


def advice(config_map: ConfigMap, installed_in: str = "") -> list[str]:
    """Sentences for its author: what is wrong, has no effect, or will not be read at all.

    Plug-ins that are named as ``module:Class`` are not imported: only the scheduler has to have them. What no scheduler
    reads is not read here either: everybody may write a ConfigMap of any name, and it takes seconds to read a long one.

    Args:
        config_map: as it would be.
        installed_in: namespace of the installation; empty where there is none.
    """
    meta = config_map.metadata
    if not concerns(meta.name):
        return []
    installed = meta.name == INSTALLED_NAME
    key = INSTALLED_KEY if installed else key_of(config_map)
    if installed and (meta.namespace != installed_in or key not in (config_map.data or {})):
        return []
    if not installed and meta.namespace != CONFIG_MAP_NAMESPACE:
        return [f"the scheduler reads {meta.name} in namespace {CONFIG_MAP_NAMESPACE} only"]
    messages = []
    if not installed and meta.name not in CONFIG_MAP_NAMES:
        messages.append(
            f"a scheduler that may read only what it must reads {' and '.join(CONFIG_MAP_NAMES)} alone: give "
            f"{meta.name} one of these names"
        )
    try:
        notes = load_config(text_of(config_map, key), key, imports=False).notes
    except ConfigError as error:
        return [*messages, f"the scheduler will not use this configuration: {error}"]
    return [*messages, *(f"{key}: {note}" for note in notes)]


# Plug-ins of modules, wherever they stand in the text: a package that is named only now is imported again, too.
_CODE = re.compile(r"name:\s*[\"']?([\w.]+:\w+)")

Loader = Callable[[str, str], SchedulerConfig]


class ConfigSource(Protocol):
    """Answers the configuration for the next cycle."""

    error: str
    """What is wrong with the newest configuration, empty when it is in use."""

    @property
    def text(self) -> str:
        """The newest configuration as it was read; empty where there is no text."""
        ...

    @property
    def name(self) -> str:
        """Where the configuration stands, in words."""
        ...

    @property
    def reference(self) -> ObjectReference | None:
        """The object of the API in which it stands, for events; None where there is none."""
        ...

    def poll(self) -> SchedulerConfig:
        """The configuration to use now; the same object as long as nothing changed. Never raises."""
        ...


class FixedConfig:
    """A configuration that never changes."""

    def __init__(self, config: SchedulerConfig | None = None) -> None:
        self.name = "the default configuration" if config is None else "a fixed configuration"
        self._config = config or default_config()
        self.error = self.text = ""
        self.reference: ObjectReference | None = None

    def poll(self) -> SchedulerConfig:
        """The configuration given."""
        return self._config


class FileConfig:
    """A configuration file that is read again when it changes.

    The content is compared, not the time alone, and the path is resolved again each time: a ConfigMap volume swaps a
    symbolic link. A file that cannot be used keeps the configuration before it. Code of plug-ins that are named as
    ``module:Class`` is imported again whenever the file is written, also with the same content.
    """

    def __init__(self, path: Path, load: Loader = load_config, on_error: Callable[[str], None] | None = None) -> None:
        """Read the file at once.

        Raises:
            ConfigError: the file cannot be read or is wrong; there is nothing before it to keep.
        """
        self._path, self._load, self._on_error = path, load, on_error
        self.error, self.name = "", str(path)
        self.reference: ObjectReference | None = None
        self._stamp = self._stat()
        self._text = self._read()
        self._config = load(self._text, str(path))

    @property
    def text(self) -> str:
        """The newest text that was read."""
        return self._text

    def poll(self) -> SchedulerConfig:
        """The newest usable configuration."""
        try:
            stamp = self._stat()
            if stamp == self._stamp:
                return self._config
            text = self._read()
            self._stamp = stamp
            code = [plugin.name for plugin in self._config.plugins if is_code(plugin.name)]
            if text != self._text or self.error or code:
                self._text = text
                with fresh_code([*code, *_CODE.findall(text)]):
                    self._config = self._load(text, str(self._path))
                self.error = ""
                _log.info("config.reloaded", file=str(self._path))
        except ConfigError as error:
            self._failed(str(error))
        return self._config

    def _failed(self, message: str) -> None:
        if message == self.error:
            return
        self.error = message
        _log.error("config.rejected", error=message, kept="the configuration before it")
        if self._on_error is not None:
            self._on_error(message)

    def _stat(self) -> tuple[int, int, int]:
        try:
            stat = self._path.stat()
        except OSError as error:
            raise ConfigError(
                f"the scheduler configuration cannot be read: {error.strerror}", file=str(self._path)
            ) from error
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    def _read(self) -> str:
        try:
            return self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the scheduler configuration cannot be read: {error}", file=str(self._path)) from error


# Tells what is wrong with a new configuration, and what else its writer should know, where they look: as events.


_AGAIN_SECONDS = 600.0
"""Events go after an hour; one that is refused is told again before."""


class ConfigNotices:
    """Events about the configuration, one for each change of what there is to tell."""

    def __init__(
        self, source: ConfigSource, events: EventRecorder, metrics: Metrics, otherwise: ObjectReference
    ) -> None:
        """Make one; ``otherwise`` is what events are about where the source is no object of the API server."""
        self._source, self._events, self._metrics, self._otherwise = source, events, metrics, otherwise
        self._told: tuple[str, tuple[str, ...], str] = ("", (), "")
        self._again = 0.0

    def tell(self, notes: tuple[str, ...], now: float) -> None:
        """Tell what has changed since the last time, and again from time to time that the newest one is refused.

        Args:
            notes: on what is in force.
            now: seconds of a clock that only goes on.
        """
        facts = (self._source.error, notes, self._source.name)
        self._metrics.config_refused.set(1.0 if facts[0] else 0.0)
        if facts == self._told and not (facts[0] and now >= self._again):
            return
        (before, earlier, name), first, self._told = self._told, facts != self._told, facts
        where = self._source.reference or self._otherwise
        if facts[0]:
            self._again = now + _AGAIN_SECONDS
            self._metrics.config_errors.inc(first)
            problem = f"{facts[0]} (the one before it stays in force)"
            self._events.event(where, "Warning", "ConfigurationRefused", problem)
            return
        if before or (name != facts[2] and self._source.reference is not None):
            self._events.event(where, "Normal", "ConfigurationAccepted", "The newest configuration is in force.")
        if notes and notes != earlier:
            self._events.event(where, "Normal", "ConfigurationNote", "; ".join(notes))


# Jobs for which a plug-in fails again and again: they are asked about less and less often.

FAILURES = 3
"""Cycles in a row in which a plug-in fails for a job, until the job waits."""


@dataclass(slots=True)
class _Failing:
    """One job: how often in a row, what for, in which state, and until when it waits (monotonic and epoch seconds)."""

    failures: int
    why: str
    state: Any
    until: float = 0.0
    resumes: float = 0.0


class PluginFailures:
    """Counts cycles in which a plug-in failed for a job; from the third one on the job waits between its attempts.

    A job that changes (its pods, what they ask for, its queue or minimum) is tried at once.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing: dict[str, _Failing] = {}
        self._backoff = Backoff(base=1.0, cap=60.0)

    def take(self, failed: Mapping[str, str], jobs: Mapping[str, Job]) -> int:
        """Take in the jobs that a plug-in failed for in a cycle, and why; answers how many of them wait from now on."""
        now, begun = self._clock.monotonic(), 0
        kept = {key: one for key, one in self._failing.items() if key in jobs and (key in failed or one.until > now)}
        for key, why in failed.items():
            if key not in jobs:
                continue
            state = _state(jobs[key])
            one = kept.get(key)
            if one is None or one.state != state:
                one = kept[key] = _Failing(0, why, state)
            one.failures, one.why = one.failures + 1, why
            if one.failures >= FAILURES:
                wait = self._backoff.delay(one.failures - FAILURES + 1)
                one.until, one.resumes = now + wait, self._clock.time() + wait
                begun += 1
        self._failing = kept
        return begun

    def setbacks(self, jobs: Mapping[str, Job]) -> dict[str, Setback]:
        """Jobs that wait now, for the next decisions."""
        now = self._clock.monotonic()
        return {
            key: Setback(one.failures, one.why, True, one.resumes, one.resumes, plugin=True)
            for key, one in self._failing.items()
            if one.until > now and key in jobs and _state(jobs[key]) == one.state
        }

    def next_release(self) -> float | None:
        """Monotonic time at which the next job that waits is tried again."""
        now = self._clock.monotonic()
        return min((one.until for one in self._failing.values() if one.until > now), default=None)


def _state(job: Job) -> Any:
    """What a plug-in may be asked about of a job."""
    pods = frozenset((task.uid, task.pod_class.id) for task in job.pending.values())
    return job.uid, job.queue, job.min_member, job.priority_class, pods
