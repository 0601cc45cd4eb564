"""Rewrites a configuration of kube-batch, or of an older Volcano, in the form that is read here (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from unisono.engine.actions import action_names
from unisono.engine.config.arguments import Argument
from unisono.engine.config.flags import FLAG_KEYS
from unisono.engine.config.names import ACTION_ARGUMENTS, METRICS_KEYS, OTHER_SECTIONS
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
            found["tiers"] = [self._tier(tier) for tier in found["tiers"]]
        if isinstance(found.get("configurations"), list):
            found["configurations"] = [one for each in found["configurations"] if (one := self._configuration(each))]
            if not found["configurations"]:
                del found["configurations"]
        if isinstance(found.get("metrics"), dict):
            found["metrics"] = self._metrics(found["metrics"])
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
            near = name if name in action_names() else meant(name, action_names())
            if near and near != name:
                self._changed(f"action {name} is {near}")
            if near:
                kept.append(near)
            elif name:
                self._lost(f"action {name}")
        return ", ".join(kept)

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
        known = name if name in BUILT_IN or is_code(name) else meant(name, BUILT_IN)
        if not known:
            self._lost(f"plug-in {name}")
            return None
        if known != name:
            self._changed(f"plug-in {name} is {known}")
        found: dict[str, Any] = {"name": known}
        for key, value in given.items():
            if key == "arguments" and isinstance(value, dict):
                kept = self._arguments(value, arguments_of(known) or (), f"plug-in {known}")
                if kept:
                    found["arguments"] = kept
            elif key != "name":
                self._flag(found, str(key), value)
        self._plugins[known] = found
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
        for key, value in given.items():
            spec = next((one for one in specs if one.accepts(str(key))), None)
            near = key if spec is not None else meant(str(key), (one.key for one in specs))
            if spec is None and (other := _owner_of(str(key))):
                self._elsewhere.append((other, str(key), self._value(str(key), value, other)))
                continue
            if not near:
                self._lost(f"{key}: {value!r} of {owner}")
                continue
            if near != key:
                self._changed(f"{key} of {owner} is {near}")
                spec = next(one for one in specs if one.key == near)
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
