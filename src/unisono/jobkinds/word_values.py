"""Values of labels and annotations that are honoured: which can be read, and what becomes of the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from unisono.api import keys
from unisono.api.annotations import KUEUE_QUEUES, SERVE
from unisono.api.numa import POLICIES
from unisono.api.pod_states import LEVELS
from unisono.api.times import duration_or_none
from unisono.jobkinds.paths import walk


def _one_of(*values: str) -> Callable[[str], bool]:
    return frozenset(values).__contains__


def _pairs(text: str) -> bool:
    return all(
        len(pair) == 2 and all(each.strip() for each in pair)
        for entry in text.split(",")
        if entry.strip()
        for pair in (entry.split("="),)
    )


def _positive_duration(text: str) -> bool:
    return (duration_or_none(text) or 0) > 0


_BOOLS = _one_of("true", "True", "TRUE", "t", "T", "1", "false", "False", "FALSE", "f", "F", "0")
_WHOLE = re.compile(r"[0-9]+", re.ASCII).fullmatch
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch
_BUDGETS_TEXT = "is refused on pods, those of a job too, and lets no pod of a PodGroup go"
_BUDGET = re.compile(r"[0-9]+%?", re.ASCII).fullmatch

_VALUES: Final[Mapping[str, tuple[Callable[[str], object], str, str]]] = {
    keys.PREEMPTABLE: (_BOOLS, "true or false", "counts as false"),
    keys.COOLDOWN_TIME: (lambda text: duration_or_none(text) is not None, "a duration such as 10m", "is left out"),
    keys.SLA_WAITING_TIME: (_positive_duration, "a duration such as 1h", "is left out"),
    "sla-waiting-time": (_positive_duration, "a duration such as 1h", "is left out"),
    keys.JDB_MIN_AVAILABLE: (_BUDGET, "a number or a percentage", _BUDGETS_TEXT),
    keys.JDB_MAX_UNAVAILABLE: (_BUDGET, "a number or a percentage", _BUDGETS_TEXT),
    keys.NUMA_TOPOLOGY_POLICY: (
        _one_of("", *POLICIES),
        f"one of {', '.join(POLICIES)}",
        "fits no node under numa-aware",
    ),
    keys.QOS_LEVEL: (_one_of("", *LEVELS), f"one of {', '.join(LEVELS)}", "is left out"),
    keys.NETWORK_TOPOLOGY_MODE: (lambda text: text.lower() in ("hard", "soft"), "hard or soft", "counts as hard"),
    keys.NETWORK_TOPOLOGY_HIGHEST_TIER: (_WHOLE, "a whole number", "is left out"),
    keys.GROUP_MIN_MEMBER: (_WHOLE, "a whole number", "counts as 1"),
    keys.TASK_PRIORITY: (_INTEGER, "a whole number", "is left out"),
    keys.POD_DELETION_COST: (_INTEGER, "a whole number", "counts as 0"),
    keys.QUOTA_BURST: (_one_of("true", "false"), "true or false", "counts as false"),
    SERVE: (_one_of("kueue"), "kueue", "is left out"),
    KUEUE_QUEUES: (_pairs, "LOCALQUEUE=QUEUE, separated by commas", "lets no job of a LocalQueue start"),
    keys.SAFE_TO_EVICT: (_one_of("true", "false"), "true or false", "is left out"),
    keys.DO_NOT_DISRUPT: (_one_of("true", "false"), "true or false", "is left out"),
}
"""By key: whether a text can be read, what to write, and what becomes of a text that cannot."""

_LONGEST: Final = 60


def unreadable(obj: Any, templates: tuple[str, ...] = ()) -> list[str]:
    """A sentence for each honoured word, on an object or on its pods' templates, whose value cannot be read.

    Args:
        obj: a struct, or JSON values.
        templates: paths of its pod templates.

    """
    return [
        f'{at}[{key}]: "{value[:_LONGEST]}" {becomes}: write {right}'
        for above in ("", *(f"{each}." for each in templates))
        for place in ("labels", "annotations")
        for at, found in walk(obj, f"{above}metadata.{place}")
        for key, value in (found.items() if isinstance(found, Mapping) else ())
        if key in _VALUES and isinstance(value, str)
        for good, right, becomes in (_VALUES[key],)
        if not good(value)
    ]
