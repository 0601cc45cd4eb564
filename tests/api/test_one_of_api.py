"""The annotations by which gangs name kinds of nodes: what is refused, where, and what a pod then asks for."""

from __future__ import annotations

import msgspec
import pytest

from support.build import group, pod
from unisono.api.annotations import ONE_OF, ONE_OF_BY
from unisono.api.base import OwnerReference
from unisono.api.core import Container, PodSpec
from unisono.api.defaulting import apply_defaults
from unisono.api.groups.batch import Job
from unisono.api.kinds import JOBS, POD_GROUPS, PODS
from unisono.api.one_of import kind_told, kinds_of, one_of, scaled, times_of
from unisono.api.validation import validate
from unisono.api.validation.training import object_warnings

WRONG = [
    ({ONE_OF: "h100"}, ONE_OF, "'h100' is no label of nodes: write LABEL=VALUE, separated by commas"),
    ({ONE_OF: " , "}, ONE_OF, "names no kind of nodes: write LABEL=VALUE, separated by commas"),
    ({ONE_OF: "a=b@slow"}, ONE_OF, "must have a number above 0 behind the @"),
    ({ONE_OF: "a=b", ONE_OF_BY: "size"}, ONE_OF_BY, "'size' must be one of order, price, speed"),
    ({ONE_OF_BY: "price"}, ONE_OF_BY, f"says nothing without {ONE_OF}"),
    *[
        ({ONE_OF: f"a=b*{times}"}, ONE_OF, "must have a whole number from 1 to 64 behind the *")
        for times in ("0", "65", "02", "0001999999999", "9" * 500, "-1", "1.5", "\u0662", "")
    ],
    ({ONE_OF: f"a={'b' * 2048}"}, ONE_OF, "... has 2050 characters, 2048 at most"),
    ({ONE_OF: "a=b" + "," * 2**15}, ONE_OF, "characters are too many, 16384 at most"),
    ({ONE_OF: "a=b, a=c*2"}, ONE_OF, "only pods of a Job (batch.volcano.sh) are made again"),
]


@pytest.mark.parametrize(("notes", "key", "what"), WRONG)
def test_what_is_refused_names_the_annotation_and_the_right_form(notes: dict[str, str], key: str, what: str) -> None:
    for kind, obj in ((POD_GROUPS, group("g", annotations=notes)), (PODS, pod("p", annotations=notes))):
        found = [said for error in validate(kind, obj) if (said := error.message()).startswith("metadata")]
        assert len(found) == 1
        assert found[0].startswith(f"metadata.annotations[{key}]")
        assert what in found[0]


def job(notes: dict[str, str], of_template: dict[str, str]) -> Job:
    container = {"name": "main", "image": "busybox"}
    template = {"metadata": {"annotations": of_template}, "spec": {"containers": [container], "restartPolicy": "Never"}}
    made = msgspec.convert(
        {
            "metadata": {"name": "job", "namespace": "default", "annotations": notes},
            "spec": {"tasks": [{"name": "w", "replicas": 1, "template": template}]},
        },
        Job,
    )
    apply_defaults(JOBS, made)
    return made


def test_other_amounts_are_for_jobs_and_what_is_made_of_them() -> None:
    text = {ONE_OF: "a=b, a=c*2"}
    assert validate(JOBS, job(text, {})) == []
    assert validate(JOBS, job({}, text)) == []
    owned = group("g", annotations=text)
    owned.metadata.owner_references = [
        OwnerReference(api_version=JOBS.api_version, kind="Job", name="j", uid="u", controller=True)
    ]
    assert validate(POD_GROUPS, owned) == []
    owned.metadata.owner_references[0].api_version = "batch/v1"
    assert validate(POD_GROUPS, owned)


def test_templates_of_pods_are_checked_too() -> None:
    found = [error.message() for error in validate(JOBS, job({}, {ONE_OF: "a=b*many"}))]
    assert len(found) == 1
    assert found[0].startswith(f"spec.tasks[0].template.metadata.annotations[{ONE_OF}]")


def test_what_stood_there_before_stays() -> None:
    old = group("g", annotations={ONE_OF: "nonsense"})
    assert validate(POD_GROUPS, group("g", 2, annotations={ONE_OF: "nonsense"}), old) == []


@pytest.mark.parametrize(("running", "notes", "refused"), [(2, {}, True), (2, {ONE_OF: "a=c"}, True), (0, {}, False)])
def test_the_list_of_a_job_stays_while_its_pods_run(running: int, notes: dict[str, str], refused: bool) -> None:
    old, new = job({ONE_OF: "a=b"}, {}), job(notes, {})
    old.status.running = new.status.running = running
    found = [error.message() for error in validate(JOBS, new, old)]
    assert bool(found) is refused
    if refused:
        assert f"metadata.annotations[{ONE_OF}]" in found[0]
        assert "may not change while pods of the job run (2 do): suspend the job first" in found[0]
    assert validate(JOBS, old, old) == []


def test_amounts_that_multiply_nothing_are_told() -> None:
    for of_job, of_template in (({ONE_OF: "a=b, a=c*2"}, {}), ({}, {ONE_OF: "a=b, a=c*2"})):
        made = job(of_job, of_template)
        assert object_warnings(JOBS, made) == [
            f"annotation {ONE_OF}: a=c*2 multiplies nothing of task w, whose pods ask for no devices"
        ]
        assert made.spec.tasks is not None
        containers = made.spec.tasks[0].template.spec.containers or []
        containers[0].resources.limits = {"nvidia.com/gpu": "1"}
        assert object_warnings(JOBS, made) == []
    assert object_warnings(JOBS, job({ONE_OF: "a=b"}, {})) == []


def test_kinds_and_what_pods_ask_for() -> None:
    first, second = kinds_of("x/a=b+c=d, x/a=e*3@0.25")
    assert (first.name, first.speed, first.times) == ("x/a=b+c=d", 1.0, 1)
    assert (second.name, second.speed, second.times) == ("x/a=e*3", 0.25, 3)
    said = one_of({ONE_OF: "x/a=b, x/a=e*3"}, {})
    assert said is not None
    texts = ("", "x/a=b", "x/a=e*3", "gone=1*2", "x/a=e*3, x/a=b", "x/a=e*3@2", "x/a=e*65", "x")
    assert [times_of(got) for got in texts] == [1, 1, 3, 2, 1, 1, 1, 1]


def test_what_a_pod_was_told_is_read_once_and_no_long_text_is() -> None:
    assert kind_told("x/once=1*2") is kind_told("x/once=1*2")
    long = "+".join(f"l{at}=v" for at in range(20_000))
    assert (kind_told(long), times_of(f"{long}*2"), one_of({ONE_OF: long}, {})) == (None, 1, None)
    assert kind_told(f"a=b*0{'9' * 9}") is None


def test_only_devices_are_scaled_and_there_and_back_is_the_same() -> None:
    amounts = {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "2", "licenses.unisono.io/matlab": "1"}
    spec = PodSpec(containers=[Container(name="c")], init_containers=[Container(name="i")])
    for each in (*(spec.containers or ()), *(spec.init_containers or ())):
        each.resources.requests, each.resources.limits = dict(amounts), dict(amounts)
    three = scaled(spec, 3)
    for each in (*(three.containers or ()), *(three.init_containers or ())):
        assert each.resources.limits == each.resources.requests == {**amounts, "nvidia.com/gpu": "6"}
    assert scaled(three, 1, 3) == spec
    assert scaled(spec, 1) is spec
