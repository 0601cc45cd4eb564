"""What explain says where the cause is not a lack of room: from the cases of ``benchmarks.answers``."""

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
    return tmp_path_factory.mktemp("outside")


@pytest.mark.parametrize(
    "name",
    [
        "aborted-job",
        "configuration-without-allocate",
        "cordoned-and-quota",
        "gated-and-scheduler-dead",
        "gated-deployment",
        "podgroup-missing",
        "priorityclass-missing-batch",
        "queue-closed",
        "quota-cpu-job",
        "quota-deployment",
        "quota-gpu-batch-job",
        "scheduler-killed-later",
        "serviceaccount-missing-job",
    ],
)
def test_the_first_line_names_the_cause_and_offers_work(name: str, folder: Path) -> None:
    one = case.named(name)
    found = judge.judge(one, folder)
    assert found.right, (found.lines, found.lacking, found.false, found.fails, found.missing)
