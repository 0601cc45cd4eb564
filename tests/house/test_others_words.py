"""The register of other schedulers' labels and annotations: each row holds, and the page has the same rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unisono.api import keys
from unisono.api.decode import decode
from unisono.api.groups.batch import Job
from unisono.api.kinds import JOBS
from unisono.jobkinds.others_words import WORDS, Word, without_effect

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "words-of-others.md"
SOURCES = {
    path: path.read_text(encoding="utf-8")
    for path in (ROOT / "src" / "unisono").rglob("*.py")
    if path.name != "others_words.py"
}
HONOURED = [word for word in WORDS if word.becomes == "honoured"]
WARNED = [word for word in WORDS if word.becomes == "warned"]
TEMPLATE = "spec.tasks[*].template"


def job(key: str, *, label: bool = False, template: bool = False) -> Job:
    notes = {"labels" if label else "annotations": {key: "x"}}
    pod = {"metadata": notes if template else {}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    meta = {"name": "j", "namespace": "default", **({} if template else notes)}
    spec = {"tasks": [{"name": "a", "replicas": 1, "template": pod}]}
    return decode(JOBS, {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": meta, "spec": spec}).obj


def test_no_word_is_there_twice() -> None:
    keys = [word.key for word in WORDS]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("word", HONOURED, ids=lambda word: word.key)
def test_what_is_honoured_is_read_somewhere(word: Word) -> None:
    names = [name for name, value in vars(keys).items() if value == word.key]
    readers = [text for path, text in SOURCES.items() if path.name != "keys.py"]
    assert any(re.search(rf"\b{name}\b", text) for name in names for text in readers)
    assert not without_effect(job(word.key), (TEMPLATE,))


@pytest.mark.parametrize("word", WARNED, ids=lambda word: word.key)
@pytest.mark.parametrize("label", [True, False], ids=["label", "annotation"])
@pytest.mark.parametrize("template", [True, False], ids=["template", "job"])
def test_what_has_no_effect_is_told_with_the_way_out(word: Word, label: bool, template: bool) -> None:
    key = word.key.replace("*", "something")
    (told,) = without_effect(job(key, label=label, template=template), (TEMPLATE,))
    where = "spec.tasks[0].template.metadata" if template else "metadata"
    assert told.startswith(f"{where}.{'labels' if label else 'annotations'}[{key}] is {word.project}'s")
    assert told.endswith(word.instead)
    assert word.instead


@pytest.mark.parametrize("word", WARNED, ids=lambda word: word.key)
def test_what_has_no_effect_is_read_nowhere(word: Word) -> None:
    """Whoever makes one of them count must say so here; words without a domain stand for other things, too."""
    if "/" not in word.key:
        return
    assert not [str(path) for path, text in SOURCES.items() if f'"{word.key.rstrip("*")}"' in text]


def test_the_page_has_the_same_rows() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ") and "`" in line]
    assert rows == [
        f"| {word.project} | `{word.key}` | {word.meaning} | {word.becomes} | {word.instead or '-'} |" for word in WORDS
    ]
