"""Cases of ``benchmarks.answers``: each job is stuck, and what is known to start it does."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2]))
case: Any = import_module("benchmarks.answers.case")
judge: Any = import_module("benchmarks.answers.judge")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("answers")


@pytest.mark.parametrize("name", case.names())
def test_case_is_sound(name: str, folder: Path) -> None:
    assert judge.judge(case.named(name), folder, soundness_only=True).unsound == ""
