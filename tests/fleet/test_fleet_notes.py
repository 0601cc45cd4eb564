"""What ``unisono explain`` says on a hub: where a job is, or why it is not in each member."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.memory import MemoryClient
from unisono.api.annotations import CLUSTER, DISPATCH, DIVISION, MACHINES, MEMBER_REASONS
from unisono.api.base import ObjectMeta
from unisono.api.core import Event, ObjectReference
from unisono.api.groups.batch import Job
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import EVENTS, JOBS, NODES
from unisono.api.promised_machines import PromisedMachines
from unisono.sdk.fixes.fix import Fix, Operation
from unisono.sdk.reasons.fleet_notes import fleet_notes


def job(**marks: str) -> Job:
    return Job(metadata=ObjectMeta(name="j", namespace="default", uid="u", annotations=marks))


def group(text: str) -> PodGroup:
    return PodGroup(metadata=ObjectMeta(name="g", namespace="default", annotations={MEMBER_REASONS: text}))


def machines(dispatch: int) -> str:
    return msgspec.json.encode(PromisedMachines(dispatch, {"P": 1}, 240.0, 900.0, 2.1)).decode()


REASONS = msgspec.json.encode({"b": "is full", "a": "takes no work"}).decode()


@pytest.mark.parametrize(
    ("owner", "groups", "lines"),
    [
        (job(), [], []),
        (job(), [group(REASONS)], ["a: takes no work", "b: is full"]),
        (job(**{CLUSTER: "a"}), [group(REASONS)], ["in cluster a"]),
        (
            job(**{CLUSTER: "a", DISPATCH: "3", MACHINES: machines(3)}),
            [],
            ["in cluster a", "waits for 1 machine of pool P in member a, about 4 minutes, 2.1 an hour"],
        ),
        # Of an earlier dispatch, and what nobody can read.
        (job(**{CLUSTER: "a", DISPATCH: "5", MACHINES: machines(3)}), [], ["in cluster a"]),
        (job(**{CLUSTER: "a", DISPATCH: "3", MACHINES: "[" * 5000}), [], ["in cluster a"]),
        (job(**{DIVISION: '{"b":2,"a":1}'}), [], ["divided: 1 in a, 2 in b"]),
        # What others have written there is no reason to fail.
        (job(**{DIVISION: '{"b":"two"}'}), [group("[1]"), group("{")], []),
    ],
)
async def test_what_a_hub_has_written(owner: Any, groups: list[PodGroup], lines: list[str]) -> None:
    assert (await fleet_notes(MemoryClient(), owner, groups)).lines() == lines


async def test_warnings_of_its_member_and_of_no_other_are_shown_once_the_newest_first() -> None:
    hub = MemoryClient()
    about = ObjectReference(kind="Job", name="j", namespace="default", uid="u")
    told = (
        ("1", "a: pod/j-w-0: old", "Failed"),
        ("3", "a: pod/j-w-0: new", "BackOff"),
        ("2", "b: pod/x: no", "Failed"),
    )
    for second, message, reason in told:
        stamp = f"2030-01-01T00:00:0{second}Z"
        meta = ObjectMeta(name=f"e{second}", namespace="default")
        hub.put(
            EVENTS,
            Event(
                metadata=meta,
                involved_object=about,
                type="Warning",
                reason=reason,
                message=message,
                last_timestamp=stamp,
            ),
        )
    notes = await fleet_notes(hub, job(**{CLUSTER: "a"}), [])
    assert notes.lines() == ["in cluster a", "a: pod/j-w-0: new (BackOff)", "a: pod/j-w-0: old (Failed)"]
    assert notes.json()["cluster"] == "a"


@pytest.mark.parametrize(("kind", "name", "kept"), [(NODES, "gpu1:n1", False), (NODES, "n1", True), (JOBS, "j", True)])
def test_a_fix_of_a_members_node_is_not_one_of_the_hubs_api(kind: Any, name: str, kept: bool) -> None:
    fix = Fix("label it", True, {"kind": "LabelNode"}, (Operation("patch", kind, name),))
    found = fix.here()
    assert bool(found.operations) is kept
    assert ("unisono fleet contexts" in found.why_not) is not kept
