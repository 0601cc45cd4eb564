"""What a job is told that waits for licences, and which changes start it."""

from __future__ import annotations

from typing import Any

import pytest
from eviction_world import running_pods

from support.build import cluster, config, floating, gang, group, node, queue, schedule
from unisono.api.annotations import LICENSES
from unisono.engine.changes import Change, LowerMinAvailable, RequestAtMost, SetLicenses, UseResource, WaitFor
from unisono.engine.decisions import Decisions
from unisono.engine.verdict import Cause, shown

SHARES = config(("priority", "gang"), ("overcommit", "predicates", "proportion", "nodeorder"))


def holder(name: str, number: int, licenses: str = "", **options: Any) -> list[Any]:
    notes = {LICENSES: licenses} if licenses else None
    head = group(name, number, phase="Running", annotations=notes)
    return [head, *running_pods(name, ["n1"] * number, **({"cpu": 1} | options))]


def told(decisions: Decisions, key: str = "ns/g") -> tuple[str, list[Any]]:
    verdict = decisions.verdicts[key]
    assert verdict.cause is Cause.LICENSES, verdict
    return shown(verdict.message), list(verdict.changes)


def test_the_verdict_says_how_many_there_are_and_who_holds_them() -> None:
    held = [holder("a", 2, matlab=2), holder("b", 1, matlab=3)]
    decisions = schedule(cluster(node("n1"), floating("matlab", 10, 1), held, gang("g", 2, matlab=2)))
    message, changes = told(decisions)
    assert message == (
        "it needs 4 of matlab: there are 10, and 7 are held, 1 outside of this cluster "
        "(ns/a holds licenses.unisono.io/matlab 4, ns/b holds licenses.unisono.io/matlab 3)"
    )
    verdict = decisions.verdicts["ns/g"]
    assert (verdict.need, verdict.have) == (
        {"licenses.unisono.io/matlab": 4000},
        {"licenses.unisono.io/matlab": 2000},
    )
    assert [one.name for one in verdict.holders] == ["ns/a", "ns/b"]
    assert SetLicenses("matlab", 12) in changes
    assert LowerMinAvailable(1) in changes
    assert WaitFor(("ns/a-w-0", "ns/a-w-1")) in changes


@pytest.mark.parametrize("phase", ["Pending", "Inqueue"])
def test_a_job_as_a_whole_is_told_what_it_asks_for_as_a_whole(phase: str) -> None:
    held = holder("a", 1, "matlab=2")
    asks = gang("g", 2, licenses="matlab=2", phase=phase, min_resources=True)
    decisions = schedule(cluster(node("n1"), floating("matlab", 3), held, asks), SHARES)
    message, changes = told(decisions)
    assert message == ("it needs 2 of matlab: there are 3, and 2 are held (ns/a holds licenses.unisono.io/matlab 2)")
    assert SetLicenses("matlab", 4) in changes
    assert WaitFor(("ns/a-w-0",)) in changes


def test_who_asks_for_more_than_is_left_may_ask_for_fewer() -> None:
    held = holder("a", 1, matlab=2)
    _, changes = told(schedule(cluster(node("n1"), floating("matlab", 3), held, gang("g", 1, matlab=2))))
    assert RequestAtMost({"licenses.unisono.io/matlab": 1000}) in changes


MEANT = UseResource("licenses.unisono.io/matlab", "licenses.unisono.io/matlap")


@pytest.mark.parametrize(
    ("asks", "change"),
    [({"matlab": 1}, MEANT), ({"licenses": "matlab"}, SetLicenses("matlab", 1))],
    ids=["pods", "the job"],
)
def test_a_name_that_nobody_knows_is_named(asks: dict[str, Any], change: Change) -> None:
    decisions = schedule(cluster(node("n1"), floating("matlap", 3), gang("g", 1, **asks)))
    message, changes = told(decisions)
    assert message == (
        "it needs 1 of matlab, and nothing starts with it: there is no FloatingResource of that name "
        "(did you mean matlap?)"
    )
    assert changes == [change]


def test_nobody_waits_for_more_than_there_are() -> None:
    held = holder("a", 1, matlab=2)
    decisions = schedule(cluster(node("n1"), floating("matlab", 3), held, gang("g", 2, matlab=2)))
    assert "wait" not in decisions.verdicts["ns/g"].suggestion


def test_promised_licences_are_counted_as_what_there_is() -> None:
    """Nodes pretend to have plenty of them."""
    first = gang("first", 1, cpu=99, matlab=1, min_resources=True)
    second = gang("g", 1, cpu=1, matlab=1, phase="Pending", min_resources=True, created=9)
    decisions = schedule(
        cluster(node("n1", cpu=200, unschedulable=True), node("n2"), floating("matlab", 1), first, second), SHARES
    )
    verdict = decisions.verdicts["ns/g"]
    print(verdict.cause, verdict.message)
    assert all(len(word) < 9 for word in verdict.message.split() if word.isdigit())


def test_the_limit_of_a_queue_is_told_as_that() -> None:
    held = holder("a", 1, matlab=2)
    things = [queue("default", capability={"matlab": 3}), floating("matlab", 9), held, gang("g", 1, matlab=2)]
    verdict = schedule(cluster(node("n1"), *things)).verdicts["ns/g"]
    assert verdict.cause is Cause.OVER_CAPABILITY
    assert "matlab" in verdict.message
