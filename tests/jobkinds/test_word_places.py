"""Every honoured word on every place of every kind: it counts there, or its author is told."""

from __future__ import annotations

import pytest

from support.words_drawn import Drawn, drawn
from unisono.api import keys
from unisono.api.kinds import NAMESPACES, QUEUES
from unisono.jobkinds.others_words import WORDS
from unisono.jobkinds.paths import walk
from unisono.jobkinds.word_places import READ_AT, arrives, misplaced, misplaced_elsewhere


def test_every_honoured_word_has_a_place() -> None:
    by_queue_names = {keys.POD_QUEUE, keys.QUEUE_NAME}
    assert READ_AT.keys() == {word.key for word in WORDS if word.becomes == "honoured"} - by_queue_names


@pytest.mark.parametrize("it", list(drawn()), ids=lambda it: it.name)
def test_none_is_silent(it: Drawn) -> None:
    obj = it.body("team")
    if it.above and not list(walk(obj, it.above)):
        pytest.skip("the small object has no such part")
    told = misplaced(it.kind, obj)
    for key in it.words:
        about = [each for each in told if f".{it.part}[{key}] has no effect" in each]
        assert len(about) == (not arrives(it.kind, it.above, it.part, key)), (key, told)


def test_a_word_that_counts_elsewhere_in_the_object_is_not_told() -> None:
    it = next(each for each in drawn() if each.kind.kind.kind == "Deployment" and not each.above)
    obj = it.body("team")
    assert any(
        keys.QOS_LEVEL in each and "write it in spec.template.metadata" in each for each in misplaced(it.kind, obj)
    )
    obj["spec"]["template"]["metadata"]["annotations"] = {keys.QOS_LEVEL: "LC"}
    assert not any(keys.QOS_LEVEL in each for each in misplaced(it.kind, obj))


def test_words_of_jobs_on_queues_and_namespaces() -> None:
    obj = {"metadata": {"annotations": {keys.HIERARCHY: "root/a", keys.PREEMPTABLE: "true"}}}
    (told,) = misplaced_elsewhere(QUEUES, obj)
    assert keys.PREEMPTABLE in told
    assert len(misplaced_elsewhere(NAMESPACES, obj)) == 2
