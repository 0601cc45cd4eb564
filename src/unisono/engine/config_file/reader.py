"""Reads a scheduler configuration: its forms, its values, and options of Volcano's command line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from unisono.api.times import parse_duration
from unisono.engine.actions import action_names
from unisono.engine.config import model
from unisono.engine.config.arguments import FLAG_KEYS, Argument, Flags, Shape, matches_kind
from unisono.engine.config_file import dialects
from unisono.engine.config_file.kube_scheduler import NAMES, whose
from unisono.engine.config_file.yaml_positions import Problems, Value, parse, suggestion
from unisono.engine.plugins.registry import BUILT_IN, arguments_of, find, is_code, plugin_names
from unisono.errors import ConfigError

# Volcano ignores an argument of the wrong type and keeps the default; here it is an error, because a quoted ``"5"``
# that silently means 1 costs hours.

_WORDS = {
    "bool": "true or false",
    "int": "a whole number without quotes",
    "float": "a number without quotes",
    "text": "a text",
    "duration": "a duration such as 1m30s",
    "list": "a list",
    "map": "a map",
    "quantity": "a quantity such as 250m or 200Mi",
}


def read_arguments(
    value: Value,
    known: Iterable[Argument] | None,
    owner: str,
    problems: Problems,
    others: Mapping[str, Iterable[Argument]] = MappingProxyType({}),
    notes: list[str] | None = None,
) -> dict[str, Any]:
    """The entries of an ``arguments`` map as plain Python values; what is wrong with one goes to ``problems``.

    Args:
        value: the map.
        known: what ``owner`` takes; None for anything.
        owner: the plug-in or action, as errors name it.
        problems: collects the errors of single arguments.
        others: what other plug-ins and actions take, by what errors call them.
        notes: collects what is right and has no effect.

    Raises:
        ConfigError: the value is no map.
    """
    if known is None:
        return {key: entry.plain() for key, _, entry in value.items()}
    specs = tuple(known)
    read: dict[str, Any] = {}
    for key, at, entry in value.items():
        with problems.kept():
            spec = next((spec for spec in specs if spec.accepts(key)), None)
            if spec is None:
                at.fail(f"unknown argument {key} of {owner}{_elsewhere(key, specs, owner, others)}")
            if entry.is_null:
                continue
            plain = entry.plain()
            if not matches_kind(spec.kind, plain):
                right = dialects.written_right(key, spec.kind, plain)
                entry.fail(f"argument {key} of {owner} must be {_WORDS[spec.kind]}, not {plain!r}{right}")
            if spec.choices and plain not in spec.choices:
                entry.fail(f"argument {key} of {owner} must be {' or '.join(spec.choices)}, not {plain!r}")
            if spec.shape is not None:
                check_shape(entry, spec.shape, f"{key} of {owner}", problems)
            if notes is not None and not spec.effective and plain != spec.default:
                notes.append(f"line {at.line}: {key} of {owner} has no effect: {spec.meaning}")
            read[key] = plain
    return read


def check_shape(value: Value, shape: Shape, what: str, problems: Problems) -> None:
    """Look into a value; each part that is wrong is an error of its own.

    Args:
        value: where it stands.
        shape: what it must be.
        what: its name in messages.
        problems: collects the errors.

    Raises:
        ConfigError: the value as a whole is wrong.
    """
    plain = value.plain()
    form = shape.form or _WORDS.get(shape.kind, "")
    if not matches_kind(shape.kind, plain):
        value.fail(f"{what} must be {form}, not {plain!r}")
    if shape.choices and plain not in shape.choices:
        value.fail(f"{what} must be {' or '.join(map(str, shape.choices))}, not {plain!r}")
    if (shape.least is not None and plain < shape.least) or (shape.most is not None and plain > shape.most):
        bounds = f"at least {shape.least:g}" if shape.most is None else f"{shape.least or 0:g} to {shape.most:g}"
        value.fail(f"{what} must be {form if shape.form else f'{form}, {bounds}'}, not {plain!r}")
    if shape.right is not None and not shape.right(plain):
        value.fail(f"{what} must be {form}, not {plain!r}")
    if isinstance(plain, dict):
        _check_map(value, shape, what, problems)
    elif isinstance(plain, list) and shape.each is not None:
        for element in value.elements():
            with problems.kept():
                check_shape(element, shape.each, f"an element of {what}", problems)


def _check_map(value: Value, shape: Shape, what: str, problems: Problems) -> None:
    entries = value.items()
    for key, at, entry in entries:
        with problems.kept():
            inner = shape.each if shape.fields is None else shape.fields.get(key)
            if inner is None and shape.fields is not None:
                has = f"; it has {', '.join(sorted(shape.fields))}"
                at.fail(f"unknown key {key} in {what}{suggestion(key, shape.fields) or has}")
            if inner is not None:
                check_shape(entry, inner, f"{key} in {what}", problems)
    for key in shape.required:
        with problems.kept():
            if not any(name == key for name, _, _ in entries):
                value.fail(f"{what} has no {key}")


def _elsewhere(key: str, specs: tuple[Argument, ...], owner: str, others: Mapping[str, Iterable[Argument]]) -> str:
    """What was meant: a switch, an argument of another owner of exactly this name, or the nearest of this one."""
    name = owner.removeprefix("plug-in ").removeprefix("action ")
    if key in FLAG_KEYS and owner != name and owner.startswith("plug-in"):
        return "; it is a switch: write it beside name and not below arguments"
    said = dialects.foreign_argument(key, name)
    if said is not None:
        return f"; {said.says}"
    exact = dialects.argument_form(key, specs, name)
    for other, other_specs in others.items() if not exact else ():
        if other != owner and any(spec.accepts(key) for spec in other_specs):
            return f"; it is one of {other}"
    return dialects.argument_suggestion(key, specs, name) or ("" if specs else f"; {owner} has no arguments")


# Reads a configuration that consists of flags of a scheduler's command line, one on a line.
#
# Guides on tuning Volcano put such flags where its configuration file stands. Each is read as what it means here; most
# of them tune parts that work in another way, and have no effect.

_LINE = re.compile(r"--(?P<name>[a-z][a-z0-9-]*)(?:(?:=|\s+)(?P<value>\S.*))?")
_MOST_BINDS = 4096


def _whole(text: str) -> None:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise ValueError("must be a whole number above 0")


def _duration(text: str) -> None:
    try:
        parse_duration(text)
    except ValueError:
        raise ValueError("must be a duration such as 30s") from None


def _always(text: str) -> None:
    if text not in ("", "true"):
        raise ValueError("cannot be turned off: jobs are always scheduled by their queues")


def _bool(text: str) -> None:
    if text not in ("", "true", "false"):
        raise ValueError("must be true or false")


def _binds(text: str) -> None:
    _whole(text)
    if int(text) > _MOST_BINDS:
        raise ValueError(f"must be at most {_MOST_BINDS}")


@dataclass(frozen=True, slots=True)
class CommandFlag:
    """One flag.

    Attributes:
        name: as it is written behind ``--``.
        check: raises ValueError with what a value must be.
        note: why it has no effect; empty where it has one.
    """

    name: str
    check: Callable[[str], None]
    note: str = ""


BIND_WORKERS = "bind-worker-threads"
"""Binds under way at a time."""
STRICT = "volcano-strict"
"""The default configuration is Volcano's: bounds that its plug-ins do not enforce have no effect."""
COMMAND_FLAGS: dict[str, CommandFlag] = {
    flag.name: flag
    for flag in (
        CommandFlag("enable-queue-schedule", _always, "jobs are always scheduled by their queues"),
        CommandFlag("cache-pod-group-interval", _duration, "PodGroups are watched, and every change is seen at once"),
        CommandFlag("scheduler-worker-threads", _whole, "all nodes are judged together, as arrays"),
        CommandFlag(BIND_WORKERS, _binds),
        CommandFlag(STRICT, _bool),
        CommandFlag("min-resync-interval", _duration, "watches miss nothing, so that nothing is listed again"),
    )
}


def is_command_line(text: str) -> bool:
    """Whether the first line that is no comment is a flag."""
    first = next((line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")), "")
    return bool(_LINE.fullmatch(first))


def read_command_line(
    text: str, file: str, default: model.SchedulerConfig, problems: Problems
) -> model.SchedulerConfig:
    """The default configuration with what the flags change.

    ``problems`` collects each line that is no flag, that names an unknown one, or whose value is wrong.
    """
    config, notes, seen = default, ["no actions and tiers: the default ones are in force"], dict[str, int]()
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if not line or line.startswith("#"):
            continue
        with problems.kept():
            flag, value = _flag(line, number, file)
            name = flag.name
            if name in seen:
                again = f"--{name} is given twice (also on line {seen[name]})"
                raise ConfigError(again, file=file, line=number, key=name)
            seen[name] = number
            try:
                flag.check(value)
            except ValueError as error:
                raise ConfigError(f"--{name} {error}", file=file, line=number, key=name) from None
            if flag.note:
                notes.append(f"line {number}: --{name} has no effect: {flag.note}")
            elif name == BIND_WORKERS:
                config = replace(config, bind_concurrency=int(value))
            elif value != "false":
                config = _strict(config)
                notes.append(f"--{STRICT}: hard bounds on the network and words of Unisono alone are not enforced")
    return replace(config, notes=tuple(notes))


def _strict(config: model.SchedulerConfig) -> model.SchedulerConfig:
    """Without what the default configuration adds to Volcano's: plug-ins that take part where objects need them."""
    tiers = tuple(
        tuple(replace(each, arguments={}) for each in tier if f"{each.name}.AutoEnable" not in each.arguments)
        for tier in config.tiers
    )
    return replace(config, tiers=tiers, joins=False)


def _flag(line: str, number: int, file: str) -> tuple[CommandFlag, str]:
    """The flag that a line names, and its value as written."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise ConfigError(f"{line[:80]!r} is no flag; write --NAME=VALUE", file=file, line=number)
    name = match["name"]
    if name not in COMMAND_FLAGS:
        near = difflib.get_close_matches(name, COMMAND_FLAGS, n=1, cutoff=0.6)
        meant = f"; did you mean --{near[0]}?" if near else ""
        raise ConfigError(f"unknown flag --{name}{meant}", file=file, line=number, key=name)
    return COMMAND_FLAGS[name], (match["value"] or "").strip()


# Reads a configuration file into `SchedulerConfig`, strictly.
# The file format is Volcano's (`docs/scheduler-configuration.md`). What Volcano ignores silently is an error here that
# names file, line and key. Reading is pure; the scheduler watches the file and calls `load_config`.

DEFAULT_TEXT = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - {name: budgets, arguments: {budgets.AutoEnable: true}}
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
  - {name: user-limits, arguments: {user-limits.AutoEnable: true}}
  - {name: deviceshare, arguments: {deviceshare.AutoEnable: true}}
  - {name: failed-nodes, arguments: {failed-nodes.AutoEnable: true}}
  - {name: hot-spares, arguments: {hot-spares.AutoEnable: true}}
  - {name: calendar, arguments: {calendar.AutoEnable: true}}
  - {name: node-checks, arguments: {node-checks.AutoEnable: true}}
  - {name: one-of, arguments: {one-of.AutoEnable: true}}
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


@cache
def default_config() -> model.SchedulerConfig:
    """What runs without a file: what Volcano's Helm chart installs, and what enforces the bounds that objects state.

    Gangs may exceed the share of an idle queue. What cards, HyperNodes, limits and Reservations need comes with them.
    """
    return load_config(DEFAULT_TEXT, "default configuration")


def load_config(text: str, file: str = "", *, imports: bool = True) -> model.SchedulerConfig:
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


def _read(text: str, file: str, problems: Problems, *, imports: bool) -> model.SchedulerConfig:
    """The configuration, of which the parts with problems are missing.

    Raises:
        ConfigError: the text is no map at all, which is the only problem then.
    """
    if is_command_line(text):
        return read_command_line(text, file, default_config(), problems)
    root = parse(text, file)
    if root is None:
        raise ConfigError("the file is empty; state actions and tiers", file=file)
    if other := whose({key: value.plain() if key in NAMES else "" for key, _, value in root.items()}):
        raise ConfigError(other, file=file)
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
        _not_at_the_top,
    )
    if not reader.actions:
        reader.actions = [*DEFAULT_ACTIONS]
        reader.notes.append(f'no actions: the default ones are in force, "{", ".join(DEFAULT_ACTIONS)}"')
    tiers = (*reader.tiers, tuple(reader.node_order)) if reader.node_order else tuple(reader.tiers)
    if all(plugin.name != "gang" for tier in tiers for plugin in tier):
        reader.notes.append("no plug-in gang: pods of a PodGroup start one by one, also fewer than minMember")
    idle = [name for name in reader.action_arguments if name in model.KNOWN_ACTIONS and name not in reader.actions]
    reader.notes += [f"the configuration of {name} has no effect: {name} is not one of the actions" for name in idle]
    return model.SchedulerConfig(
        tuple(reader.actions), tiers, reader.action_arguments, reader.metrics, notes=tuple(reader.notes), joins=True
    )


@cache
def _takers() -> dict[str, tuple[Argument, ...]]:
    """What the built-in plug-ins and actions take, by what errors call them."""
    by_plugin = {f"plug-in {name}": arguments_of(name) or () for name in plugin_names()}
    return by_plugin | {f"action {name}": model.ACTION_ARGUMENTS.get(name, ()) for name in model.KNOWN_ACTIONS}


def _not_at_the_top(key: str) -> str:
    """What a key means that is not one of the whole file."""
    said = dialects.foreign(key, dialects.SECTIONS)
    if said is not None:
        return f"; it is {said.says}"
    if key in ("name", "arguments", "args") or key in FLAG_KEYS:
        return "; it belongs to a plug-in: indent it as far as the plug-in's name"
    return ""


def _not_beside_name(key: str, plugin: str) -> str:
    """Why a key does not stand beside the name of a plug-in: it is an argument, or misspelt."""
    if any(spec.accepts(key) for spec in arguments_of(plugin) or ()):
        return f"; it is an argument: write arguments: {{{key}: ...}}"
    switch = re.sub("^(disable|enabled?)|Disabled$", "", key)
    meant_flag = next((one for one in FLAG_KEYS if re.sub("^enabled?", "", one).lower() == switch.lower()), "")
    if meant_flag:
        off = key.startswith("disable") or key.endswith("Disabled")
        return f"; it is {meant_flag} today: write {meant_flag}: false" if off else f"; did you mean {meant_flag}?"
    return suggestion(key, ["name", "arguments", *FLAG_KEYS])


class _Reader:
    """Collects the sections; a section that is null stays empty, as in Volcano."""

    def __init__(self, problems: Problems, *, imports: bool) -> None:
        self._problems, self._imports = problems, imports
        self.node_order: list[model.PluginConfig] = []
        self.notes: list[str] = []
        self.actions: list[str] = []
        self.tiers: list[tuple[model.PluginConfig, ...]] = []
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
        if name not in available and name in model.KNOWN_ACTIONS:
            value.fail(f"action {name} is not available in this version; remove it from actions")
        if name not in available:
            said = dialects.foreign(name, dialects.ACTIONS)
            hint = suggestion(name, model.KNOWN_ACTIONS | set(available))
            value.fail(f"unknown action {name}{f'; it is {said.says}' if said else hint}")
        return name

    def read_tiers(self, value: Value) -> None:
        for tier in value.elements():
            with self._problems.kept():
                listed = {name: entry for name, _, entry in tier.items()}
                if "name" in listed:
                    named = listed["name"].plain()
                    tier.fail(f"plug-in {named} stands beside plugins; indent - name: {named} below - plugins:")
                tier.entries({"plugins": Value.elements}, "a tier")
                self.tiers.append(tuple(self._plugins(listed["plugins"])) if listed else ())

    def _plugins(self, listed: Value) -> list[model.PluginConfig]:
        plugins: list[model.PluginConfig] = []
        for value in listed.elements():
            with self._problems.kept():
                plugins.append(self._plugin(value))
        by_name = {plugin.name: plugin for plugin in plugins}
        if "proportion" in by_name and "drf" in by_name and by_name["drf"].flags.hierarchy:
            listed.fail(
                "proportion and drf with hierarchy enabled conflicts; drop proportion or enableHierarchy of drf"
            )
        return plugins

    def _plugin(self, value: Value) -> model.PluginConfig:
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
                    at.fail(f"unknown key {key} of plug-in {name}{_not_beside_name(key, name)}")
        return self._tried(model.PluginConfig(name, Flags.from_keys(switched), arguments), entries.get("arguments"))

    def _tried(self, plugin: model.PluginConfig, given: tuple[Value, Value] | None) -> model.PluginConfig:
        """Make the plug-in once: what it refuses itself is an error of the file, where nothing else is wrong."""
        built_in = BUILT_IN.get(plugin.name)
        if built_in is not None and given is not None and not built_in.outside:
            try:
                built_in(plugin)
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
            plugin_class = find(name)
        except ConfigError as error:
            value.fail(str(error))
        if plugin_class is None:
            said = dialects.foreign(name, dialects.PLUGINS)
            hint = suggestion(name, plugin_names()) or "; one of your own is named as module:Class"
            value.fail(f"unknown plug-in {name}{f'; it is {said.says}' if said else hint}")
        return name

    def _seen(self, name: str) -> bool:
        return self._imports or not is_code(name)

    def _read_arguments(self, value: Value, name: str) -> dict[str, Any]:
        specs = arguments_of(name) if self._seen(name) else None
        return read_arguments(value, specs, f"plug-in {name}", self._problems, _takers(), self.notes)

    def read_node_order(self, value: Value) -> None:
        """Plug-ins that only score nodes, as ``{name, args}``; ``args`` is a map, or the same as JSON text."""
        for element in value.elements():
            with self._problems.kept():
                self.node_order.append(self._node_scorer(element))

    def _node_scorer(self, element: Value) -> model.PluginConfig:
        entries = {name: entry for name, _, entry in element.items()}
        element.entries(dict.fromkeys(("name", "args", "arguments"), Value.plain), "a plug-in of nodeorder")
        if "name" not in entries:
            element.fail(f"{element.key} has no name; write - name: gpu-aware, for example")
        if len(entries) > 2:
            element.fail(f"{element.key} has args and arguments; keep one of the two")
        name = self._plugin_name(entries["name"])
        given = entries.get("args") or entries.get("arguments")
        arguments = self._read_arguments(given.embedded(), name) if given else {}
        return model.PluginConfig(name, Flags.scoring(), arguments)

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
        names = model.KNOWN_ACTIONS | {*model.OTHER_SECTIONS, *action_names()}
        if name not in names:
            said = dialects.foreign(name, dialects.SECTIONS) or dialects.foreign(name, dialects.ACTIONS)
            entries["name"].fail(f"unknown action {name}{f'; it is {said.says}' if said else suggestion(name, names)}")
        given = entries.get("arguments")
        owner = model.OTHER_SECTIONS.get(name, f"action {name}")
        known_here = model.ACTION_ARGUMENTS.get(name, ())
        taken = read_arguments(given, known_here, owner, self._problems, _takers(), self.notes) if given else {}
        if name in self.action_arguments:
            self.notes.append(f"line {element.line}: {name} is configured twice; the first time holds")
        self.action_arguments.setdefault(name, taken)

    def read_metrics(self, value: Value) -> None:
        for key, at, entry in value.items():
            with self._problems.kept():
                if entry.is_collection:
                    entry.fail(f"metrics is a flat map; write {key}.NAME: VALUE instead of a block under {key}")
                if key not in model.METRICS_KEYS:
                    at.fail(f"unknown key {key} in metrics{suggestion(key, model.METRICS_KEYS)}")
                self.metrics[key] = str(getattr(entry.node, "value", ""))
        try:
            model.metrics_source(self.metrics)
        except ConfigError as error:
            by_key = {key: entry for key, _, entry in value.items()}
            by_key.get(error.key, value).fail(str(error))
