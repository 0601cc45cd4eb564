"""Rewrites a configuration of kube-batch, or of an older Volcano, in the form that is read here (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from unisono.engine.actions import action_names
from unisono.engine.config.arguments import FLAG_KEYS, Argument
from unisono.engine.config.model import ACTION_ARGUMENTS, METRICS_KEYS, OTHER_SECTIONS
from unisono.engine.config_file.foreign_words import (
    ACTIONS,
    PLUGINS,
    SECTIONS,
    Foreign,
    argument_meant,
    foreign,
    foreign_argument,
)
from unisono.engine.config_file.yaml_positions import meant
from unisono.engine.plugins.registry import BUILT_IN, arguments_of, is_code
from unisono.errors import ConfigError

_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")
_BOOLS = {"true": True, "false": False}


@dataclass(slots=True)
class Converted:
    """The configuration in today's form.

    Attributes:
        text: YAML.
        changes: what was written otherwise, a sentence each.
        lost: what has nothing like it here and was left out.

    """

    text: str = ""
    changes: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def convert(text: str, file: str = "") -> Converted:
    """Rewrite a configuration.

    Raises:
        ConfigError: the text is no map in YAML.

    """
    try:
        root = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"the YAML is broken: {error}", file=file) from None
    if not isinstance(root, dict):
        raise ConfigError("the file must be a map of keys to values", file=file)
    writer = _Writer()
    found = writer.whole(root)
    writer.done.text = yaml.safe_dump(found, sort_keys=False, width=120)
    return writer.done


class _Writer:
    def __init__(self) -> None:
        self.done = Converted()
        self._plugins: dict[str, dict[str, Any]] = {}
        self._elsewhere: list[tuple[str, str, Any]] = []

    def whole(self, root: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(root)
        if "actions" in found:
            found["actions"] = self._actions(found["actions"])
        if isinstance(found.get("tiers"), list):
            found["tiers"] = self._tiers(found["tiers"])
        if isinstance(found.get("configurations"), list):
            found["configurations"] = [one for each in found["configurations"] if (one := self._configuration(each))]
            if not found["configurations"]:
                del found["configurations"]
        if isinstance(found.get("metrics"), dict):
            found["metrics"] = self._metrics(found["metrics"])
        for key in [key for key in found if foreign(str(key), SECTIONS) or key in ("arguments", "args")]:
            self._lost(f"{key}: {found.pop(key)!r} at the top of the file")
        for plugin, key, value in self._elsewhere:
            if plugin in self._plugins:
                self._plugins[plugin].setdefault("arguments", {})[key] = value
                self._changed(f"{key} is an argument of plug-in {plugin}, and stands there now")
            else:
                self._lost(f"{key}: {value!r} is an argument of plug-in {plugin}, which is not configured")
        return found

    def _changed(self, text: str) -> None:
        self.done.changes.append(text)

    def _lost(self, text: str) -> None:
        self.done.lost.append(text)

    def _actions(self, value: Any) -> str:
        names = value if isinstance(value, list) else str(value).split(",")
        if isinstance(value, list):
            self._changed("actions is a text with commas")
        kept = []
        for name in (str(each).strip() for each in names):
            near = self._named(f"action {name}", name, action_names(), ACTIONS) if name else ""
            if near:
                kept.append(near)
        return ", ".join(kept)

    def _named(self, what: str, name: str, known: Iterable[str], table: Mapping[str, Foreign]) -> str:
        """The name that is read here; empty where it has none, which is told."""
        names = tuple(known)
        said = foreign(name, table)
        near = name if name in names else said.here if said is not None else meant(name, names)
        if near and near != name:
            self._changed(f"{what} is {near}")
        elif not near:
            self._lost(f"{what}, {said.says}" if said is not None else what)
        return near

    def _tiers(self, tiers: list[Any]) -> list[Any]:
        """The tiers, with plug-ins that were written beside ``plugins`` moved below it."""
        found: list[Any] = []
        for tier in tiers:
            if not isinstance(tier, dict) or "name" not in tier:
                found.append(dict(tier) if isinstance(tier, dict) else tier)
                continue
            self._changed(f"plug-in {tier['name']} stands below plugins")
            if not found or not isinstance(found[-1], dict):
                found.append({})
            found[-1]["plugins"] = [*(found[-1].get("plugins") or ()), tier]
        return [self._tier(tier) for tier in found]

    def _tier(self, tier: Any) -> Any:
        listed = tier.get("plugins") if isinstance(tier, dict) else None
        if not isinstance(listed, list):
            return tier
        return {**tier, "plugins": [one for each in listed if (one := self._plugin(each))]}

    def _plugin(self, given: Any) -> dict[str, Any] | None:
        if isinstance(given, str):
            self._changed(f"plug-in {given} is written as name: {given}")
            given = {"name": given}
        name = str(given.get("name", ""))
        own = [name] if is_code(name) else BUILT_IN
        known = self._named(f"plug-in {name}", name, own, PLUGINS)
        if not known or known in self._plugins:
            return None
        found: dict[str, Any] = {"name": known}
        self._plugins[known] = found
        specs = tuple(arguments_of(known) or ())
        inside = given.get("arguments") if isinstance(given.get("arguments"), dict) else {}
        beside = {key: value for key, value in given.items() if any(spec.accepts(str(key)) for spec in specs)}
        for key in beside:
            self._changed(f"{key} of plug-in {known} stands below arguments")
        arguments = {key: value for key, value in {**inside, **beside}.items() if key not in FLAG_KEYS}
        if known != name and arguments and foreign(name, PLUGINS):
            self._lost(f"the arguments of plug-in {name}: {', '.join(arguments)}")
            arguments = {}
        kept = self._arguments(arguments, specs, f"plug-in {known}")
        if kept:
            found["arguments"] = kept
        for key in [key for key in inside if key in FLAG_KEYS]:
            self._changed(f"{key} of plug-in {known} stands beside name")
            self._flag(found, key, inside[key])
        for key, value in given.items():
            if key not in ("name", "arguments", *beside):
                self._flag(found, str(key), value)
        return found

    def _flag(self, found: dict[str, Any], key: str, value: Any) -> None:
        if isinstance(value, str) and value.lower() in _BOOLS:
            self._changed(f"{key} of plug-in {found['name']} is {value.lower()} without quotes")
            value = _BOOLS[value.lower()]
        stem, off = re.sub(r"^(disabled?|enabled?)", "", key), key.startswith("disable")
        if key.endswith("Disabled"):  # as kube-batch's own documents write it: jobOrderDisabled
            stem, off = key.removesuffix("Disabled"), True
        wanted = next((one for one in FLAG_KEYS if re.sub(r"^enabled?", "", one).lower() == stem.lower()), None)
        if wanted is None:
            self._lost(f"{key}: {value!r} of plug-in {found['name']}")
            return
        if wanted != key:
            self._changed(f"{key} of plug-in {found['name']} is {wanted}")
        found[wanted] = not value if off and isinstance(value, bool) else value

    def _arguments(self, given: Mapping[str, Any], known: Iterable[Argument], owner: str) -> dict[str, Any]:
        specs, found = tuple(known), dict[str, Any]()
        name = owner.rsplit(maxsplit=1)[-1]
        for key, value in given.items():
            spec = next((one for one in specs if one.accepts(str(key))), None)
            said = foreign_argument(str(key), name) if spec is None else None
            if said is not None and not (said.here and _owner_of(said.here)):
                self._lost(f"{key}: {value!r} of {owner}: {said.says}")
                continue
            if said is not None:
                self._elsewhere.append((_owner_of(said.here), said.here, value))
                continue
            near = key if spec is not None else argument_meant(str(key), specs, name)
            if spec is None and (other := _owner_of(str(key))):
                self._elsewhere.append((other, str(key), self._value(str(key), value, other)))
                continue
            if not near:
                self._lost(f"{key}: {value!r} of {owner}")
                continue
            if near != key:
                self._changed(f"{key} of {owner} is {near}")
                spec = next(one for one in specs if one.accepts(near))
            found[near] = self._as(spec, value, f"{near} of {owner}") if spec is not None else value
        return found

    def _value(self, key: str, value: Any, plugin: str) -> Any:
        spec = next((one for one in arguments_of(plugin) or () if one.accepts(key)), None)
        return self._as(spec, value, key) if spec is not None else value

    def _as(self, spec: Argument, value: Any, what: str) -> Any:
        if spec.kind in ("int", "float") and isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            self._changed(f"{what} is a number without quotes")
            number = float(value)
            return int(number) if number.is_integer() else number
        if spec.shape is not None and spec.shape.fields is not None and isinstance(value, dict):
            return self._fields(spec, value, what)
        return value

    def _fields(self, spec: Argument, given: Mapping[str, Any], what: str) -> dict[str, Any]:
        fields = spec.shape.fields if spec.shape is not None else None
        found = {}
        for key, value in given.items():
            near = key if not fields or key in fields else meant(str(key), fields)
            if not near:
                self._lost(f"{key}: {value!r} in {what}")
                continue
            if near != key:
                self._changed(f"{key} in {what} is {near}")
            number = isinstance(value, str) and fields is not None and fields[near].kind in ("int", "float")
            found[near] = int(value) if number and value.strip().isdecimal() else value
        return found

    def _configuration(self, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("arguments"), dict):
            return given
        name = str(given.get("name", ""))
        said = foreign(name, SECTIONS)
        if said is not None:
            self._lost(f"configuration {name}, {said.says}")
            return None
        owner = OTHER_SECTIONS.get(name, f"action {name}")
        kept = self._arguments(given["arguments"], ACTION_ARGUMENTS.get(name, ()), owner)
        return {**given, "arguments": kept} if kept else None

    def _metrics(self, given: Mapping[str, Any], above: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in given.items():
            name = f"{above}{key}"
            if isinstance(value, dict):
                self._changed(f"{name} of metrics is flat: {name}.NAME")
                found |= self._metrics(value, f"{name}.")
            elif name in METRICS_KEYS:
                found[name] = value
            else:
                self._lost(f"{name}: {value!r} of metrics")
        return found


def _owner_of(key: str) -> str:
    """The plug-in that has an argument of exactly this name."""
    return next((name for name in BUILT_IN if any(spec.key == key for spec in arguments_of(name) or ())), "")
