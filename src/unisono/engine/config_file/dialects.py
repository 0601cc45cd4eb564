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
from unisono.engine.config_file.kube_scheduler import KUBE_SCHEDULER, converted, whose
from unisono.engine.config_file.yaml_positions import meant, suggestion
from unisono.engine.plugins.registry import BUILT_IN, arguments_of, is_code
from unisono.errors import ConfigError

# Words of older and of other schedulers' configurations, and what stands here in their place.
#
# Letters do not find these: ``elect`` is no typing mistake of any action. Sources are the tables and documents of
# Volcano 1.4 to 1.16, of kube-batch 0.5, of KAI-Scheduler 0.9 to 0.12 and of the builds of Volcano that Huawei's CCE,
# Ascend's MindCluster and PaddleFlow bring (August 2026).


@dataclass(frozen=True, slots=True)
class Foreign:
    """What becomes of one word.

    Attributes:
        says: whose it is and what to write, for errors.
        here: the name that means the same; empty where none does.
    """

    says: str
    here: str = ""


_CCE = "of Huawei's CCE: remove it"
_ASCEND = "of Ascend's build of Volcano: remove it; NPUs are counted per node as every resource"
_PADDLE = "of PaddleFlow's build of Volcano"
_KAI = "of KAI-Scheduler"
_VOLUMES = Foreign(f"{_CCE}; predicates looks at volumes")
_CARDS = Foreign(f"{_CCE}; shared cards are of plug-in deviceshare")
_ALWAYS = Foreign(f"{_KAI}: remove it; this is so without a plug-in")
_RESERVATION = Foreign("of Volcano until 1.5: remove it; plug-in reservation holds room for a gang that waits")

ACTIONS: Mapping[str, Foreign] = {
    "elect": _RESERVATION,
    "reserve": _RESERVATION,
    "consolidation": Foreign(f"{_KAI}: here it is defragment", "defragment"),
    "stalegangeviction": Foreign(f"{_KAI}: remove it; policies of the job say what becomes of a gang that lost a pod"),
    "preemptpf": Foreign(f"{_PADDLE}: here it is preempt", "preempt"),
    "rescheduling": Foreign("a plug-in and no action: list it below plugins"),
}
"""Actions."""

PLUGINS: Mapping[str, Foreign] = {
    "group-topology-affinity": Foreign(
        "of Volcano 1.16: remove it; gangs stand apart by the annotation unisono.io/apart, which counts in any case"
    ),
    "cce-gpu*": _CARDS,
    "xgpu": _CARDS,
    "nodelocalvolume": _VOLUMES,
    "nodeemptydirvolume": _VOLUMES,
    "nodeCSIscheduling": _VOLUMES,
    "networkresource": Foreign(f"{_CCE}; addresses of pods are not counted"),
    "oversubscription": Foreign(f"{_CCE}; what nodes lend is offered as a resource of its own"),
    "volcano-npu*": Foreign(_ASCEND),
    "topology910": Foreign(_ASCEND),
    "ascend-volcano-plugin": Foreign(_ASCEND),
    "kmpredicates": Foreign(f"{_PADDLE}: here it is predicates", "predicates"),
    "proportionpf": Foreign(f"{_PADDLE}: here it is proportion", "proportion"),
    "nodeplacement": Foreign(f"{_KAI}: here it is binpack, or nodeorder to spread", "binpack"),
    "gpupack": Foreign(f"{_KAI}: here it is deviceshare with deviceshare.SchedulePolicy: binpack", "deviceshare"),
    "gpuspread": Foreign(f"{_KAI}: here it is deviceshare with deviceshare.SchedulePolicy: spread", "deviceshare"),
    "gpusharingorder": Foreign(f"{_KAI}: here it is deviceshare", "deviceshare"),
    "minruntime": Foreign(f"{_KAI}: here it is eviction-guard with eviction-guard.minRunTime", "eviction-guard"),
    "topology": Foreign(f"{_KAI}: here it is network-topology-aware", "network-topology-aware"),
    "podaffinity": Foreign(f"{_KAI}: here it is nodeorder", "nodeorder"),
    "taskorder": Foreign(f"{_KAI}: here it is priority", "priority"),
    "elastic": Foreign(f"{_KAI}: here it is gang", "gang"),
    "nodeavailability": Foreign(f"{_KAI}: here it is predicates", "predicates"),
    "dynamicresources": Foreign(f"{_KAI}: here it is predicates", "predicates"),
    **dict.fromkeys(("subgrouporder", "snapshot", "resourcetype", "ray", "kubeflow", "nominatednode"), _ALWAYS),
}
"""Plug-ins; a trailing ``*`` stands for any further text."""

_PRESSURE = Foreign("nodes under pressure have taints, which predicate.TaintTolerationEnable looks at")
_PROPORTIONAL = Foreign("it is proportional of plug-in resource-strategy-fit: proportional: {RESOURCE.cpu: 4}")
_NEVER_BUILT = Foreign("a design of Volcano that no version has built: remove it")

ARGUMENTS: Mapping[tuple[str, str], Foreign] = {
    ("predicates", "predicate.MemoryPressureEnable"): _PRESSURE,
    ("predicates", "predicate.DiskPressureEnable"): _PRESSURE,
    ("predicates", "predicate.PIDPressureEnable"): _PRESSURE,
    ("predicates", "predicate.ProportionalEnable"): _PROPORTIONAL,
    ("predicates", "predicate.resources*"): _PROPORTIONAL,
    ("predicates", "predicate.VGPUEnable"): Foreign(
        "it is deviceshare.VGPUEnable of plug-in deviceshare", "deviceshare.VGPUEnable"
    ),
    ("nodeorder", "nodeorder.weight"): Foreign(
        "each score has a weight of its own: leastrequested.weight, for example"
    ),
    ("nodeorder", "*.enable"): Foreign("a weight of 0 turns a score off"),
    ("rescheduling", "queueSelector"): _NEVER_BUILT,
    ("rescheduling", "labelSelector"): _NEVER_BUILT,
    ("overcommit", "max-queue-overcommit-factor"): Foreign(
        "of Volcano 1.16: remove it; a queue has no factor of its own here, overcommit-factor holds for the cluster"
    ),
    ("drf", "drf.namespaceWeight"): Foreign("weights of namespaces stand in drf.namespaceOrder and their quotas"),
    ("", "QueueScoreOrder*"): _NEVER_BUILT,
}
"""Arguments by plug-in or action; an empty owner stands for all."""

SECTIONS: Mapping[str, Foreign] = {
    "init-params": Foreign(_ASCEND),
    "usageDBConfig": Foreign(f"{_KAI}: here plug-in fair-share remembers what was used"),
    "queueDepthPerAction": Foreign(f"{_KAI}: remove it; every waiting job is looked at"),
}
"""Entries of ``configurations`` and keys of the whole file."""


def foreign(name: str, table: Mapping[str, Foreign]) -> Foreign | None:
    """What a table says of a name."""
    return next((found for word, found in table.items() if _is(word, name)), None)


def foreign_argument(key: str, owner: str) -> Foreign | None:
    """What is known of an argument that ``owner``, a plug-in's or an action's name, does not have."""
    matches = (said for (of, word), said in ARGUMENTS.items() if of in ("", owner) and _is(word, key))
    return next(matches, None)


def argument_form(key: str, known: Iterable[Argument], owner: str) -> str:
    """The argument that is written so without, or with, its owner's name in front; empty where none is."""
    specs = tuple(known)
    forms = (key.removeprefix(f"{owner}."), f"{owner}.{key}", f"{_stem(specs)}.{key}")
    return next((form for form in forms if any(spec.accepts(form) for spec in specs)), "")


def argument_meant(key: str, known: Iterable[Argument], owner: str) -> str:
    """The argument that an unknown one stands for: of nearly its form, or of its meaning."""
    specs = tuple(known)
    names = [spec.key for spec in specs]
    return argument_form(key, specs, owner) or meant(key.removeprefix(f"{owner}."), names) or meant(key, names)


def argument_suggestion(key: str, known: Iterable[Argument], owner: str) -> str:
    """``; did you mean x?`` for an unknown argument; empty where nothing is like it."""
    specs = tuple(known)
    closest = argument_meant(key, specs, owner)
    return f"; did you mean {closest}?" if closest else suggestion(key, [spec.key for spec in specs])


def written_right(key: str, kind: str, plain: Any) -> str:
    """What to write where a text holds a value of the right kind."""
    if kind in ("int", "float") and isinstance(plain, str):
        number = plain.strip().rstrip("%")
        whole, dot, rest = number[number[:1] in ("+", "-") :].partition(".")
        right = whole.isdecimal() and (not dot or (kind == "float" and rest.isdecimal()))
        return f"; write {key}: {number}" if right else ""
    if kind == "duration" and isinstance(plain, int) and not isinstance(plain, bool):
        return f"; write {key}: {plain}s"
    return ""


def _stem(specs: tuple[Argument, ...]) -> str:
    """What most arguments of a plug-in begin with, such as ``predicate``."""
    return specs[0].key.split(".")[0] if specs and "." in specs[0].key else ""


def _is(word: str, name: str) -> bool:
    if word.startswith("*"):
        return name.endswith(word[1:])
    return name == word or (word.endswith("*") and name.startswith(word[:-1]))


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
        ConfigError: the text is no map in YAML, or configures a scheduler whose settings are no actions and plug-ins.
    """
    try:
        root = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"the YAML is broken: {error}", file=file) from None
    except RecursionError:
        raise ConfigError("the YAML is nested too deep", file=file) from None
    if not isinstance(root, dict):
        raise ConfigError("the file must be a map of keys to values", file=file)
    if root.get("kind") == KUBE_SCHEDULER:
        written, changes, lost = converted(root)
        return Converted(yaml.safe_dump(written, sort_keys=False, width=120), changes, lost)
    if other := whose(root):
        raise ConfigError(other, file=file)
    writer = _Writer()
    document = writer.whole(root)
    writer.done.text = yaml.safe_dump(document, sort_keys=False, width=120)
    return writer.done


class _Writer:
    def __init__(self) -> None:
        self.done = Converted()
        self._plugins: dict[str, dict[str, Any]] = {}
        self._elsewhere: list[tuple[str, str, Any, str]] = []
        self._last: list[dict[str, Any]] | None = None

    def whole(self, root: Mapping[str, Any]) -> dict[str, Any]:
        document = dict(root)
        if "actions" in document:
            document["actions"] = self._actions(document["actions"])
        if isinstance(document.get("tiers"), list):
            document["tiers"] = self._tiers(document["tiers"])
        if isinstance(document.get("configurations"), list):
            document["configurations"] = [
                one for each in document["configurations"] if (one := self._configuration(each))
            ]
            if not document["configurations"]:
                del document["configurations"]
        if isinstance(document.get("metrics"), dict):
            document["metrics"] = self._metrics(document["metrics"])
        for key in [key for key in document if foreign(str(key), SECTIONS) or key in ("arguments", "args")]:
            self._lost(f"{key}: {document.pop(key)!r} at the top of the file")
        for plugin, key, value, owner in self._elsewhere:
            if plugin not in self._plugins and owner.startswith("action ") and self._last is not None:
                # What actions of older versions did without a plug-in.
                self._plugins[plugin] = {"name": plugin}
                self._last.append(self._plugins[plugin])
                self._changed(f"plug-in {plugin} is added: {key} of {owner} is an argument of it today")
            if plugin in self._plugins:
                self._plugins[plugin].setdefault("arguments", {})[key] = value
                self._changed(f"{key} is an argument of plug-in {plugin}, and stands there now")
            else:
                self._lost(f"{key}: {value!r} is an argument of plug-in {plugin}, which is not configured")
        return document

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
        normalized: list[Any] = []
        for tier in tiers:
            if not isinstance(tier, dict) or "name" not in tier:
                normalized.append(dict(tier) if isinstance(tier, dict) else tier)
                continue
            self._changed(f"plug-in {tier['name']} stands below plugins")
            if not normalized or not isinstance(normalized[-1], dict):
                normalized.append({})
            normalized[-1]["plugins"] = [*(normalized[-1].get("plugins") or ()), tier]
        return [self._tier(tier) for tier in normalized]

    def _tier(self, tier: Any) -> Any:
        listed = tier.get("plugins") if isinstance(tier, dict) else None
        if not isinstance(listed, list):
            return tier
        self._last = [one for each in listed if (one := self._plugin(each))]
        return {**tier, "plugins": self._last}

    def _plugin(self, given: Any) -> dict[str, Any] | None:
        if isinstance(given, str):
            self._changed(f"plug-in {given} is written as name: {given}")
            given = {"name": given}
        name = str(given.get("name", ""))
        own = [name] if is_code(name) else BUILT_IN
        plugin_name = self._named(f"plug-in {name}", name, own, PLUGINS)
        if not plugin_name or plugin_name in self._plugins:
            return None
        entry: dict[str, Any] = {"name": plugin_name}
        self._plugins[plugin_name] = entry
        specs = tuple(arguments_of(plugin_name) or ())
        inside = given.get("arguments") if isinstance(given.get("arguments"), dict) else {}
        beside = {key: value for key, value in given.items() if any(spec.accepts(str(key)) for spec in specs)}
        for key in beside:
            self._changed(f"{key} of plug-in {plugin_name} stands below arguments")
        arguments = {key: value for key, value in {**inside, **beside}.items() if key not in FLAG_KEYS}
        if plugin_name != name and arguments and foreign(name, PLUGINS):
            self._lost(f"the arguments of plug-in {name}: {', '.join(arguments)}")
            arguments = {}
        kept = self._arguments(arguments, specs, f"plug-in {plugin_name}")
        if kept:
            entry["arguments"] = kept
        for key in [key for key in inside if key in FLAG_KEYS]:
            self._changed(f"{key} of plug-in {plugin_name} stands beside name")
            self._flag(entry, key, inside[key])
        for key, value in given.items():
            if key not in ("name", "arguments", *beside):
                self._flag(entry, str(key), value)
        return entry

    def _flag(self, found: dict[str, Any], key: str, value: Any) -> None:
        if isinstance(value, str) and value.lower() in _BOOLS:
            self._changed(f"{key} of plug-in {found['name']} is {value.lower()} without quotes")
            value = _BOOLS[value.lower()]
        stem, off = re.sub(r"^(disabled?|enabled?)", "", key), key.startswith("disable")
        if key.endswith("Disabled"):  # as kube-batch's own documents write it: jobOrderDisabled
            stem, off = key.removesuffix("Disabled"), True
        flag = next((one for one in FLAG_KEYS if re.sub(r"^enabled?", "", one).lower() == stem.lower()), None)
        if flag is None:
            self._lost(f"{key}: {value!r} of plug-in {found['name']}")
            return
        if flag != key:
            self._changed(f"{key} of plug-in {found['name']} is {flag}")
        found[flag] = not value if off and isinstance(value, bool) else value

    def _arguments(self, given: Mapping[str, Any], known: Iterable[Argument], owner: str) -> dict[str, Any]:
        specs, arguments = tuple(known), dict[str, Any]()
        name = owner.rsplit(maxsplit=1)[-1]
        for key, value in given.items():
            spec = next((one for one in specs if one.accepts(str(key))), None)
            said = foreign_argument(str(key), name) if spec is None else None
            if said is not None and not (said.here and _owner_of(said.here)):
                self._lost(f"{key}: {value!r} of {owner}: {said.says}")
                continue
            if said is not None:
                self._elsewhere.append((_owner_of(said.here), said.here, value, owner))
                continue
            near = key if spec is not None else argument_meant(str(key), specs, name)
            if spec is None and (other := _owner_of(str(key))):
                self._elsewhere.append((other, str(key), self._value(str(key), value, other), owner))
                continue
            if not near:
                self._lost(f"{key}: {value!r} of {owner}")
                continue
            if near != key:
                self._changed(f"{key} of {owner} is {near}")
                spec = next(one for one in specs if one.accepts(near))
            arguments[near] = self._as(spec, value, f"{near} of {owner}") if spec is not None else value
        return arguments

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
        entries = {}
        for key, value in given.items():
            near = key if not fields or key in fields else meant(str(key), fields)
            if not near:
                self._lost(f"{key}: {value!r} in {what}")
                continue
            if near != key:
                self._changed(f"{key} in {what} is {near}")
            number = isinstance(value, str) and fields is not None and fields[near].kind in ("int", "float")
            entries[near] = int(value) if number and value.strip().isdecimal() else value
        return entries

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
        metrics: dict[str, Any] = {}
        for key, value in given.items():
            name = f"{above}{key}"
            if isinstance(value, dict):
                self._changed(f"{name} of metrics is flat: {name}.NAME")
                metrics |= self._metrics(value, f"{name}.")
            elif name in METRICS_KEYS:
                metrics[name] = value
            else:
                self._lost(f"{name}: {value!r} of metrics")
        return metrics


def _owner_of(key: str) -> str:
    """The plug-in that has an argument of exactly this name."""
    return next((name for name in BUILT_IN if any(spec.key == key for spec in arguments_of(name) or ())), "")
