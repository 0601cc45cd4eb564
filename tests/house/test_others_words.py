"""The register of other schedulers' labels and annotations: each row holds, and the page has the same rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from unisono.api import keys
from unisono.api.annotations import SERVE
from unisono.api.decode import decode
from unisono.api.groups.batch import Job
from unisono.api.kind_families import BATCH_JOBS
from unisono.api.kinds import JOBS
from unisono.jobkinds.kueue import KUEUE, words_read
from unisono.jobkinds.others_words import SOURCES as VERSIONS
from unisono.jobkinds.others_words import WORDS, Word
from unisono.jobkinds.registry import job_kind
from unisono.jobkinds.words_without_effect import row_of, without_effect

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "words-of-others.md"
SOURCES = {
    path: path.read_text(encoding="utf-8")
    for path in (ROOT / "src" / "unisono").rglob("*.py")
    # What writes other schedulers' objects anew reads them all.
    if path.name != "others_words.py" and "migrate" not in path.parts
}
DOMAINS = {word.key for word in WORDS if word.key.endswith("/*")}
HONOURED = [word for word in WORDS if word.becomes == "honoured"]
WARNED = [word for word in WORDS if word.becomes == "warned" and word.at == "key"]
TEMPLATE = "spec.tasks[*].template"


def job(key: str, *, label: bool = False, template: bool = False, scheduler: str = "", resource: str = "") -> Job:
    notes = {"labels" if label else "annotations": {key: "x"}}
    container = {"name": "c", "image": "i", "resources": {"limits": {resource: "1"} if resource else {}}}
    pod = {"metadata": notes if template else {}, "spec": {"containers": [container]}}
    if scheduler:
        pod["spec"]["schedulerName"] = scheduler
    meta = {"name": "j", "namespace": "default", **({} if template else notes)}
    spec = {"tasks": [{"name": "a", "replicas": 1, "template": pod}]}
    return decode(JOBS, {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": meta, "spec": spec}).obj


def test_no_word_is_there_twice() -> None:
    keys = [word.key for word in WORDS]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("word", HONOURED, ids=lambda word: word.key)
def test_what_is_honoured_is_read_somewhere(word: Word) -> None:
    names = [rf"\b{name}\b" for name, value in vars(keys).items() if value == word.key]
    readers = [text for path, text in SOURCES.items() if path.name != "keys.py"]
    assert any(re.search(name, text) for name in (*names, f'"{re.escape(word.key)}"') for text in readers)
    assert not without_effect(job(word.key), (TEMPLATE,))


@pytest.mark.parametrize("word", WARNED, ids=lambda word: word.key)
@pytest.mark.parametrize("label", [True, False], ids=["label", "annotation"])
@pytest.mark.parametrize("template", [True, False], ids=["template", "job"])
def test_what_has_no_effect_is_told_with_the_way_out(word: Word, label: bool, template: bool) -> None:
    key = word.key.replace("*", "something")
    obj = job(key, label=label, template=template, scheduler=word.scheduler)
    told = without_effect(obj, (TEMPLATE,))[-1]
    where = "spec.tasks[0].template.metadata" if template else "metadata"
    assert told.startswith(f"{where}.{'labels' if label else 'annotations'}[{key}] is {word.project}'s")
    assert told.endswith(word.instead)
    assert word.instead


@pytest.mark.parametrize("word", WARNED, ids=lambda word: word.key)
def test_what_has_no_effect_is_read_nowhere(word: Word) -> None:
    """Whoever makes one of them count must say so here; words without a domain stand for other things, too."""
    served = words_read(job_kind(BATCH_JOBS), {SERVE: KUEUE})  # read where a namespace says so
    if "/" not in word.key or word.key in ("volcano.sh/*", "ray.io/*", *served):
        return
    assert not [str(path) for path, text in SOURCES.items() if f'"{word.key.rstrip("*")}"' in text]


@pytest.mark.parametrize("path", ["spec.managedBy", "spec.runPolicy.managedBy"])
@pytest.mark.parametrize("word", [word for word in WORDS if word.at == "manager"], ids=lambda word: word.key)
def test_managers_of_others_are_told(word: Word, path: str) -> None:
    obj: Any = word.key
    for name in reversed(path.split(".")):
        obj = {name: obj}
    (told,) = without_effect(obj)
    assert told.startswith(f"{path}: {word.key} is {word.project}'s")


@pytest.mark.parametrize("labels", [{}, {"kueue.x-k8s.io/queue-name": "team"}])
@pytest.mark.parametrize("suspend", [True, False])
def test_a_job_that_kueue_would_start_is_told_that_nobody_does(labels: dict[str, str], suspend: bool) -> None:
    for spec in ({"suspend": suspend}, {"runPolicy": {"suspend": suspend}}):
        told = without_effect({"metadata": {"labels": labels}, "spec": spec})
        assert ("stays true" in "".join(told)) is (suspend and bool(labels))


def test_a_weight_among_the_resources_of_a_quota_is_told_and_resources_are_not() -> None:
    (told,) = without_effect({"spec": {"hard": {"volcano.sh/namespace.weight": "2", "volcano.sh/vgpu-number": "1"}}})
    assert told.startswith("spec.hard[volcano.sh/namespace.weight] is Volcano's")


@pytest.mark.parametrize(
    "word", [word for word in WORDS if word.at in ("scheduler", "resource")], ids=lambda word: word.key
)
def test_names_of_schedulers_and_resources_of_others_are_told(word: Word) -> None:
    obj = job("plain", template=True, **{word.at: word.key})
    (told,) = without_effect(obj, (TEMPLATE,))
    assert told.startswith("spec.tasks[0].template.spec.")
    assert word.project in told
    assert told.endswith(word.instead)


@pytest.mark.parametrize("word", [word for word in WORDS if word.scheduler], ids=lambda word: word.key)
def test_words_that_stand_for_other_things_are_told_only_beside_their_scheduler(word: Word) -> None:
    assert not without_effect(job(word.key, template=True), (TEMPLATE,))


@pytest.mark.parametrize("domain", sorted(DOMAINS), ids=str)
@pytest.mark.parametrize("above", ["", "deeper."], ids=["domain", "below"])
def test_a_key_without_a_row_has_that_of_its_domain(domain: str, above: str) -> None:
    word = row_of(f"{above}{domain.removesuffix('*')}nobody-knows")
    assert word is not None
    assert word.key == domain


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("volcano.sh/preemptible", "volcano.sh/preemptable"),
        ("volcano.sh/revocable-zones", "volcano.sh/revocable-zone"),
        ("unisono.io/min-runtime", "unisono.io/min-run-time"),
    ],
)
def test_a_misspelt_key_of_ours_or_of_volcano_is_told_with_the_right_one(key: str, near: str) -> None:
    (told,) = without_effect(job(key), (TEMPLATE,))
    assert f"(did you mean {near}?)" in told


def test_every_key_of_our_own_is_known() -> None:
    found = {key for text in SOURCES.values() for key in re.findall(r'"(unisono\.io/[A-Za-z-]+)"', text)}
    assert not [key for key in sorted(found) if row_of(key) is not None]


def test_every_project_has_the_version_that_was_read() -> None:
    read = {word.project for word in WORDS if word.at == "key"}
    others = {
        "Kubernetes",
        "NVIDIA",
        "Armada",
        "GKE",
        "Multus",
        "SageMaker",
        "TKE",
        "VKE",
        "descheduler",
    }  # no scheduler's words, or known from their pages alone
    assert read - others <= VERSIONS.keys()


def test_the_page_has_the_same_rows() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for project, version in VERSIONS.items():
        assert f"| {project} | {version} |" in text
    rows = [line for line in text.split("\n## ")[0].splitlines() if line.startswith("| ") and "`" in line]
    assert rows == [
        f"| {word.project} | `{word.key}` | {word.meaning} | {word.becomes} | {word.instead or '-'} |" for word in WORDS
    ]
