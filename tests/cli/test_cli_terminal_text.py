"""What users write into objects does nothing to the terminal in which it is shown."""

from __future__ import annotations

import pytest

from unisono.cli.describing import describe_lines, event_lines
from unisono.cli.explaining import explanation_lines
from unisono.cli.printing import columns, table_lines
from unisono.sdk.reasons.explaining import Explanation

BAD = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202eevil\r\b\nFAKE\u2028line"
SHOWN = r"\x1b[2J\x1b]0;owned\x07\x9b31m\u202eevil\r\x08\nFAKE\u2028line"


@pytest.mark.parametrize(
    "lines",
    [
        columns(["Name"], [[BAD]]),
        table_lines({"columnDefinitions": [{"name": "Message"}], "rows": [{"cells": [BAD]}]}),
        event_lines([{"message": BAD, "type": "Warning"}]),
        describe_lines({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "annotations": {"a": BAD}}}),
        explanation_lines(Explanation("Pod", "p", "pod/p", BAD)),
        explanation_lines(Explanation("Pod", "p", "pod/p", "it waits", warnings=[BAD])),
    ],
    ids=["columns", "table", "events", "annotations", "state", "warnings"],
)
def test_a_terminal_obeys_nothing_in_a_cell(lines: list[str]) -> None:
    text = "".join(lines)
    assert SHOWN in text
    assert text.isprintable()


def test_a_terminal_obeys_nothing_of_what_is_described() -> None:
    item = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "labels": {"l": BAD}}, "spec": {BAD: [BAD]}}
    lines = describe_lines(item)
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("FAKE") for line in lines)


def test_other_letters_stay_as_they_are() -> None:
    assert columns(["name"], [["größer 东 é"]])[1] == "größer 东 é"
