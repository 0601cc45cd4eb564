"""What a hub does about the parts of a HyperJob together, as tables."""

from __future__ import annotations

import pytest

from unisono.api.annotations import GANG
from unisono.api.base import ObjectMeta
from unisono.api.groups.batch import HyperJob
from unisono.api.kinds import JOBS
from unisono.api.promised_machines import PromisedMachines
from unisono.fleet.hyper_jobs.decide import GangView, PartView, RestartPolicy, decide_gang
from unisono.fleet.hyper_jobs.work import GangRecord, PlacedPart, record_of
from unisono.fleet.jobs.copies import Copy, Placement
from unisono.fleet.jobs.decide import MemberView

UP, SILENT, LOST = MemberView(True), MemberView(False, 60.0), MemberView(False, 1000.0)
BOTH = {"a": UP, "b": UP}
SENT = GangRecord(1, 0, 0, 0.0, {"x": PlacedPart("a", 1, "x"), "y": PlacedPart("b", 1, "y")})
OPEN, RUNNING = SENT.open(0.0), SENT.open(0.0).start()


def copy(cluster: str, part: str, generation: int = 1, *, deleting: bool = False) -> Copy:
    return Copy(cluster, JOBS, "default", part, f"{part}-{generation}", part, generation, deleting)


def part(
    name: str, *copies: Copy, runs: bool = False, written: Placement | None = None, late: bool = False, **more
) -> PartView:
    return PartView(name, written or Placement(), copies, runs, late, **more)


def gang(record: GangRecord, x: PartView | None = None, y: PartView | None = None, **more) -> GangView:
    parts = {"x": x or part("x", copy("a", "x")), "y": y or part("y", copy("b", "y"))}
    return GangView(record, parts, **more)


COMING = GangRecord().sent({"x": ("a", "x"), "y": ("b", "y")}, 0.0, {"x": PromisedMachines(1, {"p": 1}, 80, 980, 2)})
ASKING = COMING.open(0.0, 1)
WAITS = part("x", copy("a", "x"), coming=900.0)
LATER = part("y", copy("b", "y", 2))
RUNS = {"x": part("x", copy("a", "x"), runs=True), "y": part("y", copy("b", "y"), runs=True)}


@pytest.mark.parametrize(
    ("name", "view", "members", "now", "number", "opened", "left"),
    [
        ("all have accepted", gang(SENT), BOTH, 1, 1, 1, {"x", "y"}),
        ("one has not accepted", gang(SENT, y=part("y")), BOTH, 299, None, None, None),
        ("one cannot be held back", gang(SENT, y=part("y", late=True)), BOTH, 1, 1, 1, {"x", "y"}),
        ("one copy is going", gang(SENT, y=part("y", copy("b", "y", deleting=True))), BOTH, 1, None, None, None),
        ("a part is not made yet", gang(SENT, complete=False), BOTH, 1, None, None, None),
        ("one takes too long", gang(SENT, y=part("y")), BOTH, 301, 2, 0, set()),
        ("one is silent", gang(SENT), {"a": UP, "b": SILENT}, 1, None, None, None),
        ("one is silent too long", gang(SENT), {"a": UP, "b": SILENT}, 301, 2, 0, set()),
        ("none runs yet", gang(OPEN), BOTH, 1799, None, None, None),
        ("all run", gang(OPEN, **RUNS), BOTH, 1, 1, 1, {"x", "y"}),
        ("one does not start", gang(OPEN, x=RUNS["x"]), BOTH, 1801, 2, 1, set()),
        ("one has run before", gang(RUNNING, x=RUNS["x"]), BOTH, 99999, None, None, None),
        ("short loss", gang(RUNNING, **RUNS), {"a": UP, "b": SILENT}, 1, None, None, None),
        ("long loss", gang(RUNNING, **RUNS), {"a": UP, "b": LOST}, 1, 2, 1, set()),
        ("a member has left", gang(RUNNING, **RUNS), {"a": UP}, 1, 2, 1, set()),
        ("part policy", gang(RUNNING, **RUNS, policy=RestartPolicy.PART), {"a": UP, "b": LOST}, 1, 2, 1, {"x"}),
        ("never policy", gang(RUNNING, **RUNS, policy=RestartPolicy.NEVER), {"a": UP, "b": LOST}, 1, 2, 1, {"x"}),
        ("taken back", gang(RUNNING, x=part("x", copy("a", "x"), written=Placement("", 2))), BOTH, 1, 3, 1, set()),
        ("what waits for machines is opened first", gang(COMING, WAITS, LATER), BOTH, 1, 2, 1, {"x", "y"}),
        ("not before all have accepted", gang(COMING, WAITS, part("y")), BOTH, 1, None, None, None),
        ("the others wait for the machines", gang(ASKING, WAITS, LATER), BOTH, 800, None, None, None),
        ("also without their copies", gang(ASKING, WAITS, part("y")), BOTH, 800, None, None, None),
        ("they have come", gang(ASKING, part("x", copy("a", "x")), LATER), BOTH, 800, 2, 2, {"x", "y"}),
        ("they have not", gang(ASKING, part("x", copy("a", "x"), coming=0.0), LATER), BOTH, 800, 3, 1, set()),
        (
            "they have not, part policy",
            gang(ASKING, part("x", copy("a", "x"), coming=0.0), LATER, policy=RestartPolicy.PART),
            BOTH,
            800,
            3,
            1,
            set(),
        ),
        (
            "their room is taken",
            gang(ASKING, part("x", copy("a", "x")), part("y", copy("b", "y", 2), crowded=True)),
            BOTH,
            800,
            3,
            1,
            set(),
        ),
        (
            "all wait for machines",
            gang(OPEN, part("x", copy("a", "x"), bound=False, coming=5000.0), RUNS["y"]),
            BOTH,
            4000,
            None,
            None,
            None,
        ),
        ("restored, whole", gang(GangRecord()), BOTH, 1, 1, 1, {"x", "y"}),
        ("restored, in part", gang(GangRecord(), y=part("y")), BOTH, 1, 2, 0, set()),
        ("restored, one silent", gang(GangRecord(), y=part("y")), {"a": UP, "b": SILENT}, 1, None, None, None),
    ],
)
def test_steps(name, view, members, now, number, opened, left):
    steps = decide_gang(view, members, float(now))
    if number is None:
        assert steps.record is None, name
        return
    assert (steps.record.number, steps.record.opened, set(steps.record.parts)) == (number, opened, left), name


def test_what_never_restarts_is_said_to_have_failed():
    steps = decide_gang(gang(RUNNING, **RUNS, policy=RestartPolicy.NEVER), {"a": UP, "b": LOST}, 1.0)
    assert steps.fail == ("y",)
    assert not steps.released


def test_nothing_is_taken_away_while_most_members_are_lost():
    steps = decide_gang(gang(RUNNING, **RUNS), {"a": LOST, "b": LOST}, 1.0, trusted=False)
    assert steps.record is None


def test_time_outs_are_looked_at_when_they_are_over():
    assert decide_gang(gang(SENT, y=part("y")), BOTH, 100.0).again == 200.0
    assert decide_gang(gang(OPEN), BOTH, 100.0).again == 1700.0
    assert decide_gang(gang(RUNNING, **RUNS), {"a": UP, "b": SILENT}, 1.0).again == 840.0
    assert decide_gang(gang(RUNNING, **RUNS), BOTH, 1.0).again is None


def test_a_record_is_written_and_read():
    record = SENT.open(5.0).start().without(["x"], 6.0, beyond=7)
    patch = record.patch("12")
    assert patch["metadata"]["resourceVersion"] == "12"
    found = HyperJob(metadata=ObjectMeta(name="h", annotations=patch["metadata"]["annotations"]))
    assert record_of(found) == record
    assert record.placement("y", "y") == Placement("b", 1)
    assert record.placement("x", "x") == Placement("", 8)
    assert record.placement("y", "another job of this name") == Placement("", 8)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"number":-1}', '{"parts":{"x":{}}}', '{"opened":99999999999}'])
def test_a_record_that_cannot_be_read_is_empty(text):
    assert record_of(HyperJob(metadata=ObjectMeta(name="h", annotations={GANG: text}))) == GangRecord()


def test_a_part_is_held_back_until_its_dispatch_is_open():
    again = RUNNING.without(["y"], 1.0).sent({"y": ("c", "y")}, 2.0)
    assert (again.is_held("x"), again.is_held("y")) == (False, True)
    assert not again.open(3.0).is_held("y")
