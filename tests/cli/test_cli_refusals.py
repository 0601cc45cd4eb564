"""What explain says of pods that the server does not let be created."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from unisono.api.verdict import Verdict
from unisono.cli.explaining import explanation_json, explanation_lines
from unisono.sdk.reasons.explaining import Explanation
from unisono.sdk.reasons.refusals import Refusal, refusal

CLAIM = "Failed to create PVC, err: pvc results is not found"
QUOTA = 'pods "train-w-0" is forbidden: failed quota: gpus: must specify limits.cpu for: c'
NO_PODS = convert(
    {
        "job": "default/train",
        "queue": "default",
        "cause": "NoPods",
        "message": "the PodGroup has no pods yet; 2 are needed",
        "suggestion": "create pods that name this PodGroup",
    },
    Verdict,
)


def event(reason: str, message: str = QUOTA, type: str = "Warning", **times: Any) -> dict[str, Any]:
    about = {"kind": "Job", "name": "train"}
    return {"reason": reason, "type": type, "message": message, "involvedObject": about, **times}


def at(second: int) -> dict[str, str]:
    return {"lastTimestamp": f"2026-01-01T00:00:{second:02}Z"}


SERIES = {"eventTime": "2026-01-01T00:00:01.000000Z", "series": {"lastObservedTime": "2026-01-01T00:00:30.000000Z"}}


@pytest.mark.parametrize(
    ("events", "made", "message"),
    [
        ([], "", None),
        ([event("FailedCreate", **at(1))], "", QUOTA),
        ([event("FailedCreatePod", **at(1))], "", QUOTA),
        ([event("FailedCreate", "old", **at(1)), event("FailedCreate", "new", **at(2))], "", "new"),
        # Pods come after the Service that they are reached by.
        ([event("FailedCreateService", **at(1)), event("Unschedulable", **at(2))], "", QUOTA),
        ([event("FailedMount", **at(1)), event("Unschedulable", **at(2))], "", None),
        ([event("FailedCreate", type="Normal", **at(1))], "", None),
        # The quota was raised, and a pod came.
        ([event("FailedCreate", **at(1))], "2026-01-01T00:00:05Z", None),
        # Some pods went in, those after them did not.
        ([event("FailedCreate", **at(9))], "2026-01-01T00:00:05Z", QUOTA),
        ([event("FailedCreate", **at(5))], "2026-01-01T00:00:05Z", QUOTA),
        ([event("FailedCreate", **SERIES)], "2026-01-01T00:00:05Z", QUOTA),
    ],
)
def test_the_refusal_that_still_holds(events: list[dict[str, Any]], made: str, message: str | None) -> None:
    found = refusal(events, made)
    assert (found.message if found else None) == message


@pytest.mark.parametrize(
    ("verdicts", "refused", "expected"),
    [
        (
            [NO_PODS],
            [Refusal("job", "train", QUOTA)],
            [f"job/train waits for pods that the server refuses: {QUOTA}; S."],
        ),
        ([NO_PODS], [Refusal("job", "train", CLAIM)], [f"job/train waits: {CLAIM}; S."]),
        ([NO_PODS], [], ["job/train waits in queue default: the PodGroup has no pods yet", "create pods that"]),
        (
            [replace(NO_PODS, cause="Filters", message="0 of 2 tasks can be placed")],
            [Refusal("job", "train", QUOTA)],
            ["job/train waits in queue default: 0 of 2 tasks can be placed", QUOTA],
        ),
    ],
)
def test_a_refusal_is_told_in_place_of_missing_pods(
    verdicts: list[Verdict], refused: list[Refusal], expected: list[str]
) -> None:
    told = Explanation("Job", "train", "job/train", "S", verdicts, refused=refused)
    text = "\n".join(explanation_lines(told))
    assert [each for each in expected if each not in text] == []
    assert ("create pods that name" in text) == (not refused or verdicts[0].cause != "NoPods")
    assert explanation_json(told)["refused"] == [
        {"kind": "job", "name": "train", "message": each.message} for each in refused
    ]
