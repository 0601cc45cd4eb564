"""Pods that the server refuses: one event with a count, and the server's answer where jobs are listed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from benchmarks.answers import judge
from benchmarks.answers.mutations import CAUSES, case_of
from benchmarks.answers.plane import Plane

from unisono.api.kinds import EVENTS
from unisono.kube.discovery import request_json
from unisono.sdk.overview.overview import read_overview

_LONG = 600.0
"""Virtual seconds in which controllers try again and again."""


def _seen(kind: str, folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Events of what could not be created, and what the overview says of jobs that wait."""
    found: list[dict[str, Any]] = []
    told: list[str] = []

    async def work(made: Plane) -> str:
        await asyncio.sleep(_LONG)
        await made.settle()
        events = (await request_json(made.client, "GET", EVENTS.path("default")))["items"]
        found.extend(one for one in events if one["reason"].startswith("FailedCreate"))
        told.extend(job.waiting for job in (await read_overview(made.client)).waiting)
        return ""

    case = case_of(kind, [one for one in CAUSES if one.name == "account"])
    assert judge.run(judge.stuck(case, folder, work)) == ""
    return found, told


@pytest.mark.parametrize("kind", ["deployment", "job", "jobset"])
def test_a_refusal_is_one_event_with_a_count(kind: str, tmp_path: Path) -> None:
    (event,), _ = _seen(kind, tmp_path)
    assert event["count"] > 10
    assert 'serviceaccount "tranier" not found' in event["message"]


@pytest.mark.parametrize("kind", ["job", "pytorchjob"])
def test_an_overview_has_the_answer_that_pods_got(kind: str, tmp_path: Path) -> None:
    _, (text,) = _seen(kind, tmp_path)
    assert text.startswith("its pods are refused: ")
    assert 'serviceaccount "tranier" not found' in text
