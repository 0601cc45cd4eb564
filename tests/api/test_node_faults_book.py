"""Which conditions and events of nodes tell of a fault, and how long it counts."""

from __future__ import annotations

import pytest

from support.build import START
from unisono.api.annotations import NODE_FAULTS
from unisono.api.base import ObjectMeta
from unisono.api.core import Event, EventSource, NodeCondition, ObjectReference
from unisono.api.node_faults import (
    HALF_LIFE,
    begun_again,
    faults_of,
    faults_text,
    number,
    of_condition,
    of_event,
    with_fault,
)
from unisono.api.times import rfc3339


@pytest.mark.parametrize(
    ("kind", "status", "reason", "message", "signal"),
    [
        # node-problem-detector on AKS, custom monitors, EKS' node monitoring agent, NVSentinel.
        ("XIDErrors", "True", "GpuXid", "", "xid"),
        ("XidCriticalError", "True", "", "", "xid"),
        ("IBLinkFlapping", "True", "", "", "link"),
        ("NVLinkStatusInactive", "True", "", "", "link"),
        ("GPUMissing", "True", "", "", "gpu"),
        ("UnhealthyGPU", "True", "", "", "gpu"),
        ("GpuProblem", "True", "EccError", "", "ecc"),
        ("AcceleratedHardwareReady", "False", "NvidiaDoubleBitError", "", "ecc"),
        ("AcceleratedHardwareReady", "False", "NvidiaXID79Error", "", "xid"),
        ("AcceleratedHardwareReady", "False", "NvidiaNVLinkError", "", "link"),
        ("HardwareProblem", "True", "Seen", "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus", "xid"),
        # All is well, or it is not about devices.
        ("XIDErrors", "False", "NoXid", "", ""),
        ("XIDErrors", "Unknown", "", "", ""),
        ("AcceleratedHardwareReady", "True", "NvidiaAcceleratedHardwareIsReady", "", ""),
        ("Ready", "False", "KubeletNotReady", "xid", ""),
        ("KernelDeadlock", "True", "DockerHung", "", ""),
        ("Checked", "True", "", "the tolerance is specced", ""),
    ],
)
def test_conditions(kind: str, status: str, reason: str, message: str, signal: str) -> None:
    given = NodeCondition(type=kind, status=status, reason=reason, message=message, last_transition_time=rfc3339(START))
    assert of_condition(given) == ((signal, START) if signal else None)


def event(
    reason: str,
    *,
    message: str = "",
    type: str = "Warning",
    kind: str = "Node",
    source: str = "npd",
    namespace: str = "default",
) -> Event:
    return Event(
        metadata=ObjectMeta(name="e", namespace=namespace),
        involved_object=ObjectReference(kind=kind, name="n0"),
        reason=reason,
        message=message,
        type=type,
        source=EventSource(component=source),
        last_timestamp=rfc3339(START),
    )


@pytest.mark.parametrize(
    ("given", "signal"),
    [
        (event("XIDError"), "xid"),
        (event("KernelLog", message="mlx5_0: link flapping"), "link"),
        (event("XIDError", type="Normal"), ""),
        (event("XIDError", kind="Pod"), ""),
        (event("OOMKilling"), ""),
        # Users write events in namespaces of their own.
        (event("XIDError", namespace="team"), ""),
        # What we have said ourselves of a check is no news.
        (event("NodeCheckFailed", message="exit code 1: XID 79", source="unisono-controllers"), ""),
    ],
)
def test_events(given: Event, signal: str) -> None:
    assert of_event(given) == (("n0", signal, START) if signal else None)


def test_counts_halve_each_day_and_one_that_is_known_counts_once() -> None:
    book = with_fault({}, "xid", START)
    assert with_fault(book, "xid", START) == book
    book = with_fault(with_fault(book, "xid", START + HALF_LIFE), "ecc", START + HALF_LIFE)
    assert number(book, START + HALF_LIFE) == 2.5
    assert faults_of({NODE_FAULTS: faults_text(book, START)}) == book
    assert faults_text(book, START + 10 * HALF_LIFE) == ""


def test_a_quarantine_that_is_lifted_begins_the_book_anew() -> None:
    notes = {NODE_FAULTS: faults_text(with_fault({}, "xid", START), START)}
    text = begun_again(notes, START + 60)
    book = faults_of({NODE_FAULTS: text or ""})
    assert number(book, START + 60) < 1
    assert with_fault(book, "xid", START) == book, "what was told before is in it"
    assert begun_again({}, START) is None
