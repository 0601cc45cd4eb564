"""Changes and pods in the published verdict, and its bound in size."""

from __future__ import annotations

import json

from unisono.engine.changes import AddNodes, LowerMinAvailable, RaiseCapability, ReleasePort
from unisono.engine.verdict import Cause, Verdict
from unisono.scheduler.explain import render


def test_changes_are_told_with_their_kind_and_fields() -> None:
    verdict = Verdict(
        "ns/j",
        Cause.OVER_CAPABILITY,
        "full",
        changes=(LowerMinAvailable(2), RaiseCapability("q", {"cpu": 2000}), AddNodes("n", 3)),
        would_run_after=tuple(f"ns/p{i:02}" for i in range(20)),
        plugins_off=("prices",),
    )
    value = json.loads(render(verdict))
    assert value["change"] == {"kind": "LowerMinAvailable", "to": 2}
    assert value["otherwise"] == [
        {"kind": "RaiseCapability", "queue": "q", "amounts": {"cpu": 2000}},
        {"kind": "AddNodes", "like": "n", "count": 3},
    ]
    assert len(value["wouldRunAfter"]) == 16
    assert value["wouldRunAfterCount"] == 20
    assert value["pluginsOff"] == ["prices"]


def test_a_change_that_names_very_many_objects_is_given_up() -> None:
    pods = tuple(f"ns/{'x' * 60}-{i}" for i in range(500))
    verdict = Verdict("ns/j", Cause.PORT_TAKEN, "taken", changes=(ReleasePort(80, pods, pods),), suggestion="wait")
    text = render(verdict)
    assert len(text) <= 4096
    assert json.loads(text)["suggestion"] == "wait"
    assert "change" not in json.loads(text)
