"""Recorded cases of Volcano's own unit tests: the same decisions, exactly."""

from __future__ import annotations

from typing import Any

import pytest
from conformance_cases import KNOWN_DIFFERENCES, compare_recorded, missing_of, read_cases, run_case

CASES = read_cases("recorded")


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_recorded_case(case: dict[str, Any], record_property: Any) -> None:
    record_property("conformance_form", "recorded")
    if case["id"] in KNOWN_DIFFERENCES:
        pytest.skip(f"differs on purpose: {KNOWN_DIFFERENCES[case['id']]}")
    if lacking := missing_of(case):
        pytest.skip(f"not available: {', '.join(lacking)}")
    _, decisions = run_case(case)
    wrong = compare_recorded(case, decisions)
    assert not wrong, f"{case['id']} ({case['name']}): " + "; ".join(wrong)
