"""Several causes at once: the answer names them all, and the fix that it offers first undoes them all."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.answers.composed import judge_composed
from benchmarks.answers.mutations import CAUSES, KINDS, case_of, drawn

SEED = 20
PAIRS = (
    "deployment queue-name claim",
    "job account taint",
    "job queue-closed limits",
    "jobset priority gate",
    "jobset quota cordon",
    "pytorchjob namespaces device",
)


def _check(case: object, folder: Path) -> None:
    result = judge_composed(case, folder)  # type: ignore[arg-type]
    assert not result.sound or (result.named and not result.why), str(result)


@pytest.mark.parametrize("names", PAIRS)
def test_one_fix_undoes_both(names: str, tmp_path: Path) -> None:
    kind, *causes = names.split()
    _check(case_of(kind, [one for name in causes for one in CAUSES if one.name == name]), tmp_path)


@pytest.mark.more
@pytest.mark.parametrize("case", list(drawn(60, SEED)), ids=lambda case: case.name)
def test_one_fix_undoes_any_two(case: object, tmp_path: Path) -> None:
    _check(case, tmp_path)


@pytest.mark.more
@pytest.mark.parametrize("case", list(drawn(len(KINDS) * len(CAUSES), SEED, 1)), ids=lambda case: case.name)
def test_each_cause_alone(case: object, tmp_path: Path) -> None:
    _check(case, tmp_path)
