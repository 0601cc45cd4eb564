"""Words of older and of other schedulers' configurations, and what stands here in their place.

Letters do not find these: ``elect`` is no typing mistake of any action. Sources are the tables and documents of Volcano
1.4 to 1.16, of kube-batch 0.5, of KAI-Scheduler 0.9 to 0.12 and of the builds of Volcano that Huawei's CCE and Ascend's
MindCluster bring (August 2026).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from unisono.engine.config.arguments import Argument
from unisono.engine.config_file.yaml_positions import meant, suggestion


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
    "rescheduling": Foreign("a plug-in and no action: list it below plugins"),
}
"""Actions."""

PLUGINS: Mapping[str, Foreign] = {
    "cce-gpu*": _CARDS,
    "xgpu": _CARDS,
    "nodelocalvolume": _VOLUMES,
    "nodeemptydirvolume": _VOLUMES,
    "nodeCSIscheduling": _VOLUMES,
    "networkresource": Foreign(f"{_CCE}; addresses of pods are not counted"),
    "oversubscription": Foreign(f"{_CCE}; what nodes lend is offered as a resource of its own"),
    "volcano-npu*": Foreign(_ASCEND),
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
    found = (said for (of, word), said in ARGUMENTS.items() if of in ("", owner) and _is(word, key))
    return next(found, None)


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
    found = argument_meant(key, specs, owner)
    return f"; did you mean {found}?" if found else suggestion(key, [spec.key for spec in specs])


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
