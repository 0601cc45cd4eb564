"""The book of what went wrong on a node lately, in its annotation ``unisono.io/node-faults`` (pure).

``ecc=1@2026-01-02T03:04:05Z,xid=2.5@...``: how often by signal, and when the last time. A count halves each day.
Signals come from conditions and events of the node, as node-problem-detector, the agents of clouds, and NVIDIA's
programs write them, and from jobs whose pods fail there. Anybody who may write the node may take an entry out, or
write one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from unisono.api.annotations import NODE_FAULTS
from unisono.api.core import Event, NodeCondition
from unisono.api.failed_nodes import Failures, book_of, failed, text_of
from unisono.api.times import time_or

HALF_LIFE: Final = 86_400.0
"""Seconds in which a count halves."""
JOB_FAILURE: Final = "job-failure"
_LIFTED = 0.2
"""What is left of a count when a quarantine is lifted: what was told before is not counted again."""
_LONGEST_TEXT = 512
_OURS = "unisono"
# The first that is found counts. Words of conditions come together as in NvidiaDoubleBitError.
_SIGNALS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("ecc", r"\becc\b|ecc ?error|double ?bit|uncorrectable|row ?remap|(?:^|[^a-z])dbe\b"),
        ("link", r"nv ?link|link ?(?:is )?flap|flapping|(?:ib|infiniband|roce|ethernet) ?link|link ?down"),
        ("xid", r"xid"),
        ("gpu", r"gpu ?(?:is ?)?(?:missing|lost|unhealthy|has fallen)|fallen off the bus|unhealthy ?gpu|gpu ?count"),
    )
)
_STATES_OF_KUBELETS = frozenset(("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"))
_GOOD_WHEN_TRUE = re.compile(r"Ready$|Healthy$|Available$")


def signal_of(text: str) -> str:
    """Which signal words are about; empty where none."""
    return next((name for name, pattern in _SIGNALS if pattern.search(text[:_LONGEST_TEXT])), "")


def of_condition(condition: NodeCondition) -> tuple[str, float] | None:
    """The signal that a condition gives, and since when, seconds since 1970; None where all is well.

    A condition that is named after what is good, such as ``AcceleratedHardwareReady``, tells of a fault where it is
    False, others where they are True.
    """
    kind = condition.type or ""
    bad = "False" if _GOOD_WHEN_TRUE.search(kind) else "True"
    if kind in _STATES_OF_KUBELETS or condition.status != bad:
        return None
    signal = signal_of(f"{kind} {condition.reason or ''}") or signal_of(condition.message or "")
    return (signal, time_or(condition.last_transition_time, 0.0)) if signal else None


def of_event(event: Event) -> tuple[str, str, float] | None:
    """The node of which a warning tells, the signal, and when it came last; None where it is no such warning.

    Who tells of nodes does it in the namespace of what has none; users write events in their own.
    """
    if event.metadata.namespace not in ("", None, "default"):
        return None
    about = event.involved_object
    source = (event.source.component if event.source is not None else None) or event.reporting_component or ""
    if event.type != "Warning" or about.kind != "Node" or not about.name or source.startswith(_OURS):
        return None
    signal = signal_of(event.reason or "") or signal_of(event.message or "")
    times = (event.last_timestamp, event.event_time, event.first_timestamp, event.metadata.creation_timestamp)
    return (about.name, signal, next((time_or(one) for one in times if one), 0.0)) if signal else None


def faults_of(annotations: Mapping[str, str] | None) -> dict[str, Failures]:
    """The book of a node."""
    return book_of((annotations or {}).get(NODE_FAULTS))


def with_fault(book: Mapping[str, Failures], signal: str, time: float) -> dict[str, Failures]:
    """The book with one more; what came no later than the last of its kind is in it already."""
    before = book.get(signal)
    if before is not None and time <= before.last:
        return dict(book)
    return failed(book, signal, time, HALF_LIFE)


def faults_text(book: Mapping[str, Failures], now: float) -> str:
    """The book as text, without what is forgotten."""
    return text_of(book, now, HALF_LIFE)


def number(book: Mapping[str, Failures], now: float) -> float:
    """All that is left of the counts."""
    return sum(one.at(now, HALF_LIFE) for one in book.values())


def begun_again(annotations: Mapping[str, str] | None, now: float) -> str | None:
    """The book when a quarantine is lifted; None for none."""
    return faults_text({name: Failures(_LIFTED, now) for name in faults_of(annotations)}, now) or None
