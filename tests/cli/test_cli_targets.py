"""What users may type for kinds and objects."""

from __future__ import annotations

import pytest
from msgspec import convert

from unisono.api.verdict import Verdict, verdict_in
from unisono.cli.explaining import verdict_lines
from unisono.cli.printing import columns, table_lines
from unisono.cli.targets import BadTarget, one, parse
from unisono.kube.discovery import Resource, ResourceMap, UnknownKind

MAP = ResourceMap(
    [
        Resource("", "v1", "Pod", "pods", "pod", True, ("po",), ("all",)),
        Resource("batch", "v1", "Job", "jobs", "job", True, (), ("all",)),
        Resource("batch.volcano.sh", "v1alpha1", "Job", "jobs", "job", True, ("vcjob", "vj")),
        Resource("scheduling.volcano.sh", "v1beta1", "Queue", "queues", "queue", False, ("q",)),
    ]
)


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("job", "batch.volcano.sh"),
        ("Jobs", "batch.volcano.sh"),
        ("vj", "batch.volcano.sh"),
        ("jobs.batch", "batch"),
        ("po", ""),
        ("q", "scheduling.volcano.sh"),
    ],
)
def test_a_kind_has_many_names_and_the_batch_systems_job_comes_first(name: str, group: str) -> None:
    assert MAP.named(name).group == group


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(UnknownKind, match="Did you mean 'queue'"):
        MAP.named("quee")


def test_a_manifest_of_an_unserved_kind_says_what_to_install() -> None:
    with pytest.raises(UnknownKind, match=r'no matches for kind "Service" in version "serving\.knative\.dev/v1"'):
        MAP.of("serving.knative.dev/v1", "Service", "x.yaml:3")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("jobs",), [("jobs", None)]),
        (("job", "a", "b"), [("jobs", "a"), ("jobs", "b")]),
        (("job/a", "po/b"), [("jobs", "a"), ("pods", "b")]),
        (("pods,queues",), [("pods", None), ("queues", None)]),
        (("all",), [("pods", None), ("jobs", None)]),
    ],
)
def test_words_name_objects(words: tuple[str, ...], found: list[tuple[str, str | None]]) -> None:
    assert [(target.resource.plural, target.name) for target in parse(words, MAP)] == found


@pytest.mark.parametrize("words", [(), ("job/a", "b"), ("job/",), ("a/b/c",), ("pods,queues", "x")])
def test_words_that_mix_forms_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(BadTarget):
        parse(words, MAP)


def test_one_object_must_be_named() -> None:
    assert one(("job", "a"), MAP).name == "a"
    with pytest.raises(BadTarget, match="Name one object"):
        one(("jobs",), MAP)


def test_a_table_shows_wide_columns_and_namespaces_when_asked() -> None:
    table = {
        "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Node", "priority": 1}],
        "rows": [{"cells": ["a", None], "object": {"metadata": {"namespace": "ns"}}}],
    }
    assert table_lines(table) == ["NAME", "a"]
    assert table_lines(table, wide=True, namespaces=True) == ["NAMESPACE   NAME   NODE", "ns          a"]


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert columns(("a", "b"), [("long", True), ("x", 3)]) == ["A      B", "long   true", "x      3"]


def test_a_verdict_is_told_fact_by_fact_in_the_users_units() -> None:
    lines = verdict_lines(
        convert(
            {
                "job": "ns/j",
                "queue": "q",
                "cause": "NodesFull",
                "message": "too little cpu",
                "need": {"cpu": 80000, "memory": 1 << 30},
                "have": {"cpu": 500},
                "tasksPlaceable": 2,
                "tasksNeeded": 20,
                "nodes": 3,
                "reasons": {"Insufficient cpu": 3},
                "holders": [{"kind": "PodGroup", "name": "ns/other", "amounts": {"cpu": 4000}}],
                "suggestion": "lower minAvailable to 2",
            },
            Verdict,
        )
    )
    assert lines == [
        "ns/j waits in queue q: too little cpu",
        "  cause:   NodesFull",
        "  need:    cpu 80, memory 1Gi",
        "  have:    cpu 500m",
        "  gang:    2 of 20 pods would find a place",
        "  nodes:   3 looked at: 3 Insufficient cpu",
        "  held by: PodGroup ns/other (cpu 4)",
        "  try:     lower minAvailable to 2",
    ]


@pytest.mark.parametrize(
    ("job", "title", "who"),
    [
        ("ns/train-07e1854b-bf48-4663-8241-c5dfeb3e5713", "", "ns/train"),
        ("ns/train-07e1854b-bf48-4663-8241-c5dfeb3e5713", "job/train", "job/train"),
        ("ns/podgroup-07e1854b-bf48-4663-8241-c5dfeb3e5713", "", "ns/podgroup-07e1854b-bf48-4663-8241-c5dfeb3e5713"),
        ("ns/mine", "", "ns/mine"),
    ],
)
def test_a_verdict_names_the_job_and_not_its_pod_groups_uid(job: str, title: str, who: str) -> None:
    assert verdict_lines(Verdict(job=job, queue="q", message="m"), title)[0] == f"{who} waits in queue q: m"


def test_holders_are_told_without_what_they_do_not_hold() -> None:
    holder = {"kind": "Queue", "name": "b", "amounts": {"cpu": 500, "nvidia.com/gpu": 0}}
    assert "  held by: Queue b (cpu 500m)" in verdict_lines(convert({"holders": [holder]}, Verdict))


def test_cells_of_the_server_are_blank_where_they_are_empty() -> None:
    table = {
        "columnDefinitions": [{"name": "Name"}, {"name": "Runnings"}, {"name": "Roles"}],
        "rows": [{"cells": ["a", None, "<none>"]}, {"cells": ["b", 0, ""]}],
    }
    assert table_lines(table) == ["NAME   RUNNINGS   ROLES", "a                 <none>", "b      0"]


@pytest.mark.parametrize("annotations", [None, {}, {"unisono.io/verdict": "{"}, {"unisono.io/verdict": "[]"}])
def test_an_annotation_that_is_no_verdict_counts_as_none(annotations: dict[str, str] | None) -> None:
    assert verdict_in(annotations) is None


def test_a_name_alone_is_a_jobs() -> None:
    assert one(["large"], MAP) == one(["job/large"], MAP)
    with pytest.raises(BadTarget):
        one(["job"], MAP)
    with pytest.raises(UnknownKind):
        one(["large", "x"], MAP)
    with pytest.raises(UnknownKind):
        one(["large/x"], MAP)
