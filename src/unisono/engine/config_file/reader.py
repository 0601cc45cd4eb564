"""Reads a configuration file into `SchedulerConfig`, strictly.

The file format is Volcano's (`docs/scheduler-configuration.md`). What Volcano ignores silently is an error here that
names file, line and key. Reading is pure; the scheduler watches the file and calls `load_config`.
"""

from __future__ import annotations

from typing import Any

from unisono.engine.actions import action_names
from unisono.engine.config.flags import FLAG_KEYS, Flags
from unisono.engine.config.metrics import metrics_source
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.engine.config.names import ACTION_ARGUMENTS, KNOWN_ACTIONS, METRICS_KEYS, PLUGINS_SECTION
from unisono.engine.config_file.arguments import read_arguments
from unisono.engine.config_file.yaml_positions import Value, parse, suggestion
from unisono.engine.plugins.registry import arguments_of, find, plugin_names
from unisono.errors import ConfigError

DEFAULT_TEXT = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
    arguments:
      proportion.firstGang: true
  - name: nodeorder
  - name: binpack
"""


def default_config() -> SchedulerConfig:
    """What runs without a file: what Volcano's Helm chart installs, and gangs may exceed the share of an idle queue."""
    return load_config(DEFAULT_TEXT, "default configuration")


def load_config(text: str, file: str = "") -> SchedulerConfig:
    """Read a configuration file.

    Args:
        text: the file's content, YAML.
        file: its name, for messages only.

    Raises:
        ConfigError: the text breaks a rule; the message names file, line and key.

    """
    root = parse(text, file)
    if root is None:
        raise ConfigError("the file is empty; state actions and tiers", file=file)
    reader = _Reader()
    root.entries(
        {
            "actions": reader.read_actions,
            "tiers": reader.read_tiers,
            "configurations": reader.read_configurations,
            "metrics": reader.read_metrics,
        },
        "the scheduler configuration",
    )
    if not reader.actions:
        root.fail('actions is missing; write, for example, actions: "enqueue, allocate, backfill"')
    return SchedulerConfig(tuple(reader.actions), tuple(reader.tiers), reader.action_arguments, reader.metrics)


class _Reader:
    """Collects the four sections; a section that is null stays empty, as in Volcano."""

    def __init__(self) -> None:
        self.actions: list[str] = []
        self.tiers: list[tuple[PluginConfig, ...]] = []
        self.action_arguments: dict[str, dict[str, Any]] = {}
        self.metrics: dict[str, str] = {}
        self._lines: dict[str, int] = {}

    def read_actions(self, value: Value) -> None:
        available = action_names()
        for name in (part.strip() for part in value.text().split(",")):
            if name in available:
                self.actions.append(name)
            elif not name:
                value.fail("actions holds an empty name; separate names with single commas")
            elif name in KNOWN_ACTIONS:
                value.fail(f"action {name} is not available in this version; remove it from actions")
            else:
                value.fail(f"unknown action {name}{suggestion(name, KNOWN_ACTIONS | set(available))}")

    def read_tiers(self, value: Value) -> None:
        for tier in value.elements():
            listed = {name: entry for name, _, entry in tier.items()}
            tier.entries({"plugins": Value.elements}, "a tier")
            self.tiers.append(tuple(self._plugins(listed["plugins"])) if listed else ())

    def _plugins(self, listed: Value) -> list[PluginConfig]:
        plugins = [self._plugin(value) for value in listed.elements()]
        by_name = {plugin.name: plugin for plugin in plugins}
        if "proportion" in by_name and "drf" in by_name and by_name["drf"].flags.hierarchy:
            listed.fail(
                "proportion and drf with hierarchy enabled conflicts; drop proportion or enableHierarchy of drf"
            )
        return plugins

    def _plugin(self, value: Value) -> PluginConfig:
        entries = {name: (at, entry) for name, at, entry in value.items()}
        if "name" not in entries:
            value.fail(f"{value.key} has no name; write - name: gang, for example")
        name = self._plugin_name(entries["name"][1])
        switched: dict[str, bool] = {}
        arguments: dict[str, Any] = {}
        for key, (at, entry) in entries.items():
            if key == "arguments":
                arguments = read_arguments(entry, arguments_of(name), f"plug-in {name}")
            elif key in FLAG_KEYS:
                if not entry.is_null:
                    switched[key] = entry.boolean()
            elif key != "name":
                at.fail(f"unknown key {key} of plug-in {name}{suggestion(key, ['name', 'arguments', *FLAG_KEYS])}")
        return PluginConfig(name, Flags.from_keys(switched), arguments)

    def _plugin_name(self, value: Value) -> str:
        name = value.text()
        if name in self._lines:
            value.fail(f"plug-in {name} is listed twice (also on line {self._lines[name]}); keep one of the two")
        self._lines[name] = value.line
        try:
            found = find(name)
        except ConfigError as error:
            value.fail(str(error))
        if found is None:
            value.fail(f"unknown plug-in {name}{suggestion(name, plugin_names())}")
        return name

    def read_configurations(self, value: Value) -> None:
        for element in value.elements():
            entries = {name: entry for name, _, entry in element.items()}
            element.entries({"name": Value.text, "arguments": Value.items}, "a configuration")
            if "name" not in entries:
                element.fail(f"{element.key} has no name; name the action that its arguments are for")
            name = entries["name"].text()
            known = KNOWN_ACTIONS | {PLUGINS_SECTION, *action_names()}
            if name not in known:
                entries["name"].fail(f"unknown action {name}{suggestion(name, known)}")
            given = entries.get("arguments")
            owner = f"action {name}" if name != PLUGINS_SECTION else "the plug-ins"
            read_in = read_arguments(given, ACTION_ARGUMENTS.get(name, ()), owner) if given else {}
            self.action_arguments.setdefault(name, read_in)

    def read_metrics(self, value: Value) -> None:
        for key, at, entry in value.items():
            if entry.is_collection:
                entry.fail(f"metrics is a flat map; write {key}.NAME: VALUE instead of a block under {key}")
            if key not in METRICS_KEYS:
                at.fail(f"unknown key {key} in metrics{suggestion(key, METRICS_KEYS)}")
            self.metrics[key] = str(getattr(entry.node, "value", ""))
        try:
            metrics_source(self.metrics)
        except ConfigError as error:
            by_key = {key: entry for key, _, entry in value.items()}
            by_key.get(error.key, value).fail(str(error))
