"""Reads a configuration file into `SchedulerConfig`, strictly.

The file format is Volcano's (`docs/scheduler-configuration.md`). What Volcano ignores silently is an error here that
names file, line and key. Reading is pure; the scheduler watches the file and calls `load_config`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from unisono.engine.actions import action_names
from unisono.engine.config.arguments import Argument
from unisono.engine.config.flags import FLAG_KEYS, Flags
from unisono.engine.config.metrics import metrics_source
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.engine.config.names import ACTION_ARGUMENTS, KNOWN_ACTIONS, METRICS_KEYS, OTHER_SECTIONS
from unisono.engine.config_file.arguments import read_arguments
from unisono.engine.config_file.command_line import is_command_line, read_command_line
from unisono.engine.config_file.problems import Problems
from unisono.engine.config_file.yaml_positions import Value, parse, suggestion
from unisono.engine.plugins.registry import BUILT_IN, arguments_of, find, is_code, plugin_names
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
      proportion.deserved: true
  - name: user-limits
    arguments:
      user-limits.AutoEnable: true
  - name: deviceshare
    arguments:
      deviceshare.AutoEnable: true
  - name: nodeorder
  - name: binpack
  - name: network-topology-aware
    arguments:
      network-topology-aware.AutoEnable: true
      hypernode.binpack.normal-pod.enable: false
"""


DEFAULT_ACTIONS = ("enqueue", "allocate", "backfill")
NODE_ORDER = "nodeorder"
"""The section that lists plug-ins which score nodes, beside tiers."""


def default_config() -> SchedulerConfig:
    """What runs without a file: what Volcano's Helm chart installs, and what enforces the bounds that objects state.

    Gangs may exceed the share of an idle queue. What shared cards, HyperNodes and limits of users need takes part where
    there are any.
    """
    return load_config(DEFAULT_TEXT, "default configuration")


def load_config(text: str, file: str = "", *, imports: bool = True) -> SchedulerConfig:
    """Read a configuration file.

    A text of command line flags, such as ``--bind-worker-threads=8``, stands for the default with these flags.

    Args:
        text: the file's content, YAML.
        file: its name, for messages only.
        imports: import plug-ins that are named as ``module:Class``; without it they and their arguments pass unseen.

    Raises:
        ConfigError: the text breaks a rule; the message names file, line and key.

    """
    problems = Problems()
    with problems.whole_file():
        config = _read(text, file, problems, imports=imports)
    problems.raise_first()
    return config


def config_errors(text: str, file: str = "", *, imports: bool = True) -> list[ConfigError]:
    """The errors of a configuration file in its order, at most 100; none where ``load_config`` can read it."""
    problems = Problems()
    with problems.whole_file():
        _read(text, file, problems, imports=imports)
    return problems.found


def _read(text: str, file: str, problems: Problems, *, imports: bool) -> SchedulerConfig:
    """The configuration, of which the parts with problems are missing.

    Raises:
        ConfigError: the text is no map at all, which is the only problem then.

    """
    if is_command_line(text):
        return read_command_line(text, file, default_config(), problems)
    root = parse(text, file)
    if root is None:
        raise ConfigError("the file is empty; state actions and tiers", file=file)
    reader = _Reader(problems, imports=imports)
    root.entries(
        {
            "actions": reader.read_actions,
            "tiers": reader.read_tiers,
            "configurations": reader.read_configurations,
            "metrics": reader.read_metrics,
            NODE_ORDER: reader.read_node_order,
        },
        "the scheduler configuration",
        problems,
    )
    if not reader.actions:
        reader.actions = [*DEFAULT_ACTIONS]
        reader.notes.append(f'no actions: the default ones are in force, "{", ".join(DEFAULT_ACTIONS)}"')
    tiers = (*reader.tiers, tuple(reader.node_order)) if reader.node_order else tuple(reader.tiers)
    if all(plugin.name != "gang" for tier in tiers for plugin in tier):
        reader.notes.append("no plug-in gang: pods of a PodGroup start one by one, also fewer than minMember")
    return SchedulerConfig(
        tuple(reader.actions), tiers, reader.action_arguments, reader.metrics, notes=tuple(reader.notes)
    )


@cache
def _takers() -> dict[str, tuple[Argument, ...]]:
    """What the built-in plug-ins and actions take, by what errors call them."""
    found = {f"plug-in {name}": arguments_of(name) or () for name in plugin_names()}
    return found | {f"action {name}": ACTION_ARGUMENTS.get(name, ()) for name in KNOWN_ACTIONS}


class _Reader:
    """Collects the sections; a section that is null stays empty, as in Volcano."""

    def __init__(self, problems: Problems, *, imports: bool) -> None:
        self._problems, self._imports = problems, imports
        self.node_order: list[PluginConfig] = []
        self.notes: list[str] = []
        self.actions: list[str] = []
        self.tiers: list[tuple[PluginConfig, ...]] = []
        self.action_arguments: dict[str, dict[str, Any]] = {}
        self.metrics: dict[str, str] = {}
        self._lines: dict[str, int] = {}

    def read_actions(self, value: Value) -> None:
        for name in (part.strip() for part in value.text().split(",")):
            with self._problems.kept():
                self.actions.append(self._action(value, name))

    def _action(self, value: Value, name: str) -> str:
        available = action_names()
        if not name:
            value.fail("actions holds an empty name; separate names with single commas")
        if name not in available and name in KNOWN_ACTIONS:
            value.fail(f"action {name} is not available in this version; remove it from actions")
        if name not in available:
            value.fail(f"unknown action {name}{suggestion(name, KNOWN_ACTIONS | set(available))}")
        return name

    def read_tiers(self, value: Value) -> None:
        for tier in value.elements():
            with self._problems.kept():
                listed = {name: entry for name, _, entry in tier.items()}
                tier.entries({"plugins": Value.elements}, "a tier")
                self.tiers.append(tuple(self._plugins(listed["plugins"])) if listed else ())

    def _plugins(self, listed: Value) -> list[PluginConfig]:
        plugins: list[PluginConfig] = []
        for value in listed.elements():
            with self._problems.kept():
                plugins.append(self._plugin(value))
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
            with self._problems.kept():
                if key == "arguments":
                    arguments = self._read_arguments(entry, name)
                elif key in FLAG_KEYS:
                    if not entry.is_null:
                        switched[key] = entry.boolean()
                elif key != "name":
                    at.fail(f"unknown key {key} of plug-in {name}{suggestion(key, ['name', 'arguments', *FLAG_KEYS])}")
        return self._tried(PluginConfig(name, Flags.from_keys(switched), arguments), entries.get("arguments"))

    def _tried(self, plugin: PluginConfig, given: tuple[Value, Value] | None) -> PluginConfig:
        """Make the plug-in once: what it refuses itself is an error of the file, where nothing else is wrong."""
        found = BUILT_IN.get(plugin.name)
        if found is not None and given is not None and not found.outside:
            try:
                found(plugin)
            except ConfigError as error:
                if not any(each.key.startswith(given[1].key) for each in self._problems.found):
                    given[1].named_in(str(error)).fail(str(error))
        return plugin

    def _plugin_name(self, value: Value) -> str:
        name = value.text()
        if name in self._lines:
            value.fail(f"plug-in {name} is listed twice (also on line {self._lines[name]}); keep one of the two")
        self._lines[name] = value.line
        if not self._seen(name):
            return name
        try:
            found = find(name)
        except ConfigError as error:
            value.fail(str(error))
        if found is None:
            value.fail(f"unknown plug-in {name}{suggestion(name, plugin_names())}")
        return name

    def _seen(self, name: str) -> bool:
        return self._imports or not is_code(name)

    def _read_arguments(self, value: Value, name: str) -> dict[str, Any]:
        known = arguments_of(name) if self._seen(name) else None
        return read_arguments(value, known, f"plug-in {name}", self._problems, _takers())

    def read_node_order(self, value: Value) -> None:
        """Plug-ins that only score nodes, as ``{name, args}``; ``args`` is a map, or the same as JSON text."""
        for element in value.elements():
            with self._problems.kept():
                self.node_order.append(self._node_scorer(element))

    def _node_scorer(self, element: Value) -> PluginConfig:
        entries = {name: entry for name, _, entry in element.items()}
        element.entries(dict.fromkeys(("name", "args", "arguments"), Value.plain), "a plug-in of nodeorder")
        if "name" not in entries:
            element.fail(f"{element.key} has no name; write - name: gpu-aware, for example")
        if len(entries) > 2:
            element.fail(f"{element.key} has args and arguments; keep one of the two")
        name = self._plugin_name(entries["name"])
        given = entries.get("args") or entries.get("arguments")
        arguments = self._read_arguments(given.embedded(), name) if given else {}
        return PluginConfig(name, Flags.scoring(), arguments)

    def read_configurations(self, value: Value) -> None:
        for element in value.elements():
            with self._problems.kept():
                self._read_configuration(element)

    def _read_configuration(self, element: Value) -> None:
        entries = {name: entry for name, _, entry in element.items()}
        element.entries({"name": Value.text, "arguments": Value.items}, "a configuration")
        if "name" not in entries:
            element.fail(f"{element.key} has no name; name the action that its arguments are for")
        name = entries["name"].text()
        known = KNOWN_ACTIONS | {*OTHER_SECTIONS, *action_names()}
        if name not in known:
            entries["name"].fail(f"unknown action {name}{suggestion(name, known)}")
        given = entries.get("arguments")
        owner = OTHER_SECTIONS.get(name, f"action {name}")
        known_here = ACTION_ARGUMENTS.get(name, ())
        arguments = read_arguments(given, known_here, owner, self._problems, _takers()) if given else {}
        self.action_arguments.setdefault(name, arguments)

    def read_metrics(self, value: Value) -> None:
        for key, at, entry in value.items():
            with self._problems.kept():
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
