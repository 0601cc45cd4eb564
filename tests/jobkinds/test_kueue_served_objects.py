"""What a namespace's annotations say of jobs with Kueue's labels."""

from __future__ import annotations

import pytest

from unisono.api.annotations import KUEUE_QUEUES, SERVE
from unisono.api.kind_families import BATCH_JOBS, DEPLOYMENTS, JOB_SETS
from unisono.api.kinds import JOBS
from unisono.jobkinds.kueue import queue_behind, read_queues, words_read
from unisono.jobkinds.registry import job_kind
from unisono.jobkinds.word_places import unreadable


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("team=research", {"team": "research"}),
        (" team = research , night=spare,", {"team": "research", "night": "spare"}),
        ("", {}),
        ("team", None),
        ("team=", None),
        ("=research", None),
        ("a=b=c", None),
    ],
)
def test_queues_behind_local_queues(text: str, found: dict[str, str] | None) -> None:
    assert read_queues(text) == found
    told = unreadable({"metadata": {"annotations": {KUEUE_QUEUES: text}}})
    assert bool(told) == (found is None)


def test_without_a_list_the_queue_has_the_name_of_the_local_queue() -> None:
    assert queue_behind("team", {SERVE: "kueue"}) == "team"
    assert not queue_behind("team", {KUEUE_QUEUES: "night=spare"})
    assert not queue_behind("team", {KUEUE_QUEUES: "nonsense"})


def test_another_value_of_the_switch_is_told() -> None:
    (told,) = unreadable({"metadata": {"annotations": {SERVE: "kueu"}}})
    assert "write kueue" in told


@pytest.mark.parametrize(
    ("kind", "words"), [(BATCH_JOBS, 3), (JOB_SETS, 2), (DEPLOYMENTS, 1), (JOBS, 0)], ids=lambda each: str(each)[:20]
)
def test_words_that_are_read_by_kind(kind: object, words: int) -> None:
    known = job_kind(kind)  # type: ignore[arg-type]
    assert len(words_read(known, {SERVE: "kueue"})) == words
    assert not words_read(known, {})
