"""The annotations that say where a gang stands: what is refused, where, and which terms of a pod they mean."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.build import group, pod
from unisono.api.annotations import APART, NEAR, SPREAD, TIER
from unisono.api.base import LabelSelector
from unisono.api.core import (
    Affinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    PodTemplateSpec,
    TopologySpreadConstraint,
)
from unisono.api.defaulting import apply_defaults
from unisono.api.gang_affinity import Wish, preferring, said, wishes_of, with_wishes
from unisono.api.groups.batch import Job
from unisono.api.keys import GROUP_NAME
from unisono.api.kinds import JOBS, POD_GROUPS, PODS
from unisono.api.selecting import with_keys
from unisono.api.validation import validate
from unisono.api.validation.pod import validate_pod_spec, validate_template

READ = [
    (NEAR, "app=prefill@tier-1", [Wish(NEAR, (("app", "prefill"),), f"{TIER}tier-1")]),
    (NEAR, " b=x , a=y @ rack : preferred=7 ", [Wish(NEAR, (("a", "y"), ("b", "x")), f"{TIER}rack", weight=7)]),
    (NEAR, "@kubernetes.io/hostname", [Wish(NEAR, (), "kubernetes.io/hostname")]),
    (APART, "app=r@tier-2:preferred", [Wish(APART, (("app", "r"),), f"{TIER}tier-2", weight=100)]),
    (APART, "@tier-1:by=example.com/part", [Wish(APART, (), f"{TIER}tier-1", by="example.com/part")]),
    (
        SPREAD,
        "@tier-1:skew=2:min=3; app=@zone",
        [Wish(SPREAD, (), f"{TIER}tier-1", skew=2, least=3), Wish(SPREAD, (("app", ""),), f"{TIER}zone")],
    ),
    (SPREAD, "", []),
]
WRONG = [
    (NEAR, "app=prefill", "'app=prefill' names no domain behind an @: write app=prefill@tier-1"),
    (NEAR, ";", "says nothing: write"),
    (NEAR, "prefill@tier-1", "'prefill' is no label of pods"),
    (NEAR, "app=a,app=b@tier-1", "label app stands there twice"),
    (NEAR, "app=a@tier 1", "'tier 1' is no domain: write tier-N or the name of a tier of HyperNodes"),
    (NEAR, "app=a@tier-1:skew=2", "is not known: behind the domain may stand, after colons, preferred"),
    (NEAR, "app=a@tier-1:preferred=0", "must have a whole number from 1 to 100"),
    (NEAR, "app=a@tier-1:preferred=\u0661", "must have a whole number from 1 to 100"),
    (NEAR, f"app=a@tier-1:preferred={'9' * 5000}", "characters are too many, 2048 at most"),
    (NEAR, "app=a@tier-1; app=b@tier-2", "only one entry may be required"),
    (APART, "@tier-1", "names no pods: write labels before the @, or by=LABEL"),
    (APART, "app=a@tier-1:by=", "names no label: write by=LABEL"),
    (APART, "app=a@tier-1; app=a@tier-1:preferred", "says the same twice"),
    (APART, ";".join(f"app=a{at}@tier-1" for at in range(9)), "9 entries are too many, 8 at most"),
    (SPREAD, "@tier-1:min=2:preferred", "min holds for what is required only"),
    (SPREAD, "@tier-1:skew=-1", "must have a whole number from 1 to 5000"),
]


@pytest.mark.parametrize(("word", "text", "expected"), READ)
def test_what_an_entry_says(word: str, text: str, expected: list[Wish]) -> None:
    assert wishes_of(word, text) == tuple(expected)


@pytest.mark.parametrize(("word", "text", "what"), WRONG)
def test_what_is_refused_names_the_annotation_and_the_right_form(word: str, text: str, what: str) -> None:
    for kind, obj in ((POD_GROUPS, group("g", annotations={word: text})), (PODS, pod("p", annotations={word: text}))):
        found = [told for error in validate(kind, obj) if (told := error.message()).startswith("metadata")]
        assert len(found) == 1
        assert found[0].startswith(f"metadata.annotations[{word}]")
        assert what in found[0]
    template = PodTemplateSpec(spec=pod("p").spec)
    template.metadata.annotations = {word: text}
    paths = [error.path for error in validate_template(template, "t") if error.path.startswith("t.metadata")]
    assert paths == [f"t.metadata.annotations[{word}]"]


def test_a_job_is_refused_for_its_own_annotation_and_an_update_for_what_it_changes() -> None:
    body = {"metadata": {"name": "j", "namespace": "default", "annotations": {NEAR: "x"}}}
    container = {"name": "main", "image": "busybox"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    made = msgspec.convert({**body, "spec": {"tasks": [{"name": "w", "replicas": 1, "template": template}]}}, Job)
    apply_defaults(JOBS, made)
    assert [error.path for error in validate(JOBS, made)] == [f"metadata.annotations[{NEAR}]"]
    assert validate(POD_GROUPS, group("g", annotations={NEAR: "x"}), group("g", annotations={NEAR: "x"})) == []


def test_a_pod_goes_before_its_group_word_by_word() -> None:
    of_gang = {NEAR: "app=a@tier-1", APART: "app=b@tier-1"}
    assert said({}, of_gang) == (*wishes_of(NEAR, "app=a@tier-1"), *wishes_of(APART, "app=b@tier-1"))
    assert said({NEAR: ""}, of_gang) == wishes_of(APART, "app=b@tier-1")
    assert said({NEAR: "app=c@tier-2"}, of_gang)[0].key == f"{TIER}tier-2"


def test_the_same_as_a_preference() -> None:
    text = "app=a@tier-1:skew=2:min=3; app=b@tier-1:preferred=5"
    assert preferring({SPREAD: text}, SPREAD) == "app=a@tier-1:skew=2:preferred; app=b@tier-1:preferred=5"
    assert preferring({NEAR: "app=b@tier-1:preferred"}, NEAR) == ""
    assert preferring({}, NEAR) == ""


def terms(word: str, text: str, labels: dict[str, str], spec: PodSpec | None = None) -> Any:
    return msgspec.to_builtins(with_wishes(spec or PodSpec(), wishes_of(word, text), labels, "gang"))


def test_what_entries_mean_as_terms() -> None:
    labels = {"app": "r", "part": "1"}
    away = terms(APART, "app=r@tier-1", labels)["affinity"]["podAntiAffinity"]
    of_others = {"key": GROUP_NAME, "operator": "NotIn", "values": ["gang"]}
    (term,) = away["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == f"{TIER}tier-1"
    assert term["labelSelector"] == {"matchLabels": {"app": "r"}, "matchExpressions": [of_others]}
    parts = terms(APART, "@tier-1:by=part:preferred=3", labels)["affinity"]["podAntiAffinity"]
    (liked,) = parts["preferredDuringSchedulingIgnoredDuringExecution"]
    own = {"key": GROUP_NAME, "operator": "In", "values": ["gang"]}
    others = [{"key": "part", "operator": "Exists"}, {"key": "part", "operator": "NotIn", "values": ["1"]}]
    assert liked["weight"] == 3
    assert liked["podAffinityTerm"]["labelSelector"] == {"matchExpressions": [own, *others]}
    (even,) = terms(SPREAD, "@tier-1:min=2", labels)["topologySpreadConstraints"]
    assert (even["maxSkew"], even["minDomains"], even["whenUnsatisfiable"]) == (1, 2, "DoNotSchedule")
    assert even["labelSelector"] == {"matchExpressions": [own]}


def test_a_pod_without_the_label_that_parts_is_in_no_part() -> None:
    assert "podAntiAffinity" not in str(terms(APART, "@tier-1:by=part", {}).get("affinity", {}).values())


def test_own_terms_stay() -> None:
    mine = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector(match_labels={"a": "b"}))
    spec = PodSpec(
        affinity=Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=[mine]))
    )
    away = terms(APART, "app=r@tier-1", {}, spec)["affinity"]["podAntiAffinity"]
    keys = [one["topologyKey"] for one in away["requiredDuringSchedulingIgnoredDuringExecution"]]
    assert keys == ["zone", f"{TIER}tier-1"]
    assert spec.affinity is not None
    assert spec.affinity.pod_anti_affinity is not None
    assert spec.affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution == [mine]


# ---- matchLabelKeys


def spread(**given: Any) -> PodSpec:
    made = pod("p").spec
    made.topology_spread_constraints = [
        TopologySpreadConstraint(max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule", **given)
    ]
    return made


def away(**given: Any) -> PodSpec:
    made = pod("p").spec
    term = PodAffinityTerm(topology_key="zone", **given)
    side = PodAntiAffinity(required_during_scheduling_ignored_during_execution=[term])
    made.affinity = Affinity(pod_anti_affinity=side)
    return made


APP = LabelSelector(match_labels={"app": "a"})


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (spread(match_label_keys=["v"], label_selector=APP), []),
        (spread(match_label_keys=["v"]), ["must not be specified when labelSelector is not set"]),
        (spread(match_label_keys=["app"], label_selector=APP), ["exists in both matchLabelKeys and labelSelector"]),
        (spread(match_label_keys=["a b"], label_selector=APP), ["name part must consist of"]),
        (away(mismatch_label_keys=["v"], match_label_keys=["w"], label_selector=APP), []),
        (away(mismatch_label_keys=["v"]), ["must not be specified when labelSelector is not set"]),
        (
            away(mismatch_label_keys=["v"], match_label_keys=["v"], label_selector=APP),
            ["exists in both matchLabelKeys and mismatchLabelKeys"],
        ),
    ],
)
def test_label_keys_are_checked_as_kubernetes_does(spec: PodSpec, told: list[str]) -> None:
    found = [error.message() for error in validate_pod_spec(spec, "spec") if "abelKeys" in error.path]
    assert len(found) == len(told)
    assert all(part in one for part, one in zip(told, found, strict=True))


def test_label_keys_become_requirements_once() -> None:
    labels = {"v": "1", "w": "2"}
    merged = with_keys(APP, labels, ["v", "absent"], ["w"])
    assert merged is not None
    assert [(one.key, one.operator, one.values) for one in merged.match_expressions or ()] == [
        ("v", "In", ["1"]),
        ("w", "NotIn", ["2"]),
    ]
    assert with_keys(merged, labels, ["v"], ["w"]) == merged
    assert with_keys(merged, {"v": "other"}, ["v"]) == merged, "what the API server has written stays"
    assert with_keys(None, labels, ["v"]) is None
