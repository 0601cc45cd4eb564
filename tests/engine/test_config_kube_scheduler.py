"""Configurations of other schedulers: Kubernetes' own is rewritten, and of the others it is said whose they are."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from unisono.engine.config_file.dialects import convert
from unisono.engine.config_file.reader import config_errors, load_config
from unisono.errors import ConfigError


def profile(points: dict[str, Any], *config: tuple[str, dict[str, Any]], **more: Any) -> str:
    """A KubeSchedulerConfiguration of one profile; ``-Name`` is disabled, ``Name=3`` has a weight."""
    plugins: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for point, names in points.items():
        for name in names.split():
            plain, _, weight = name.lstrip("-").partition("=")
            entry = {"name": plain, **({"weight": int(weight)} if weight else {})}
            plugins.setdefault(point, {}).setdefault("disabled" if name[0] == "-" else "enabled", []).append(entry)
    listed = [{"name": name, "args": args} for name, args in config]
    one = {"schedulerName": "batch-scheduler", "plugins": plugins, "pluginConfig": listed}
    whole = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [one]}
    return yaml.safe_dump({**whole, **more})


Found = tuple[str, dict[str, Any], str, str]
FORMS: dict[str, Found] = {
    "gangs of the plug-ins": (
        profile({"multiPoint": "Coscheduling", "queueSort": "-PrioritySort Coscheduling"}),
        {"gang": {}},
        "plug-in Coscheduling is plug-in gang",
        "",
    ),
    "elastic quotas": (
        profile({"multiPoint": "CapacityScheduling", "postFilter": "-* CapacityScheduling"}),
        {"capacity": {}},
        "plug-in CapacityScheduling is plug-in capacity",
        "",
    ),
    "weights of scores": (
        profile({"score": "NodeAffinity=7 -ImageLocality -NodeResourcesFit"}),
        {"nodeorder": {"nodeaffinity.weight": 7, "imagelocality.weight": 0, "leastrequested.weight": 0}},
        "plug-in NodeAffinity is nodeaffinity.weight",
        "",
    ),
    "no score but one": (
        profile({"score": "-* TaintToleration=4"}),
        {"nodeorder": {"tainttoleration.weight": 4, "nodeaffinity.weight": 0, "balancedresource.weight": 0}},
        "score * is disabled",
        "",
    ),
    "full nodes first": (
        profile(
            {},
            (
                "NodeResourcesFit",
                {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "nvidia.com/gpu", "weight": 5}]}},
            ),
        ),
        {"resource-strategy-fit": {"resources": {"nvidia.com/gpu": {"type": "MostAllocated", "weight": 5}}}},
        "scoringStrategy MostAllocated",
        "",
    ),
    "a ratio that is a curve": (
        profile({}, ("NodeResourcesFit", {"scoringStrategy": {"type": "RequestedToCapacityRatio"}})),
        {"resource-strategy-fit": {}},
        "resource-strategy-fit",
        "requestedToCapacityRatio: it counts as MostAllocated",
    ),
    "measured load": (
        profile(
            {"score": "-NodeResourcesFit LoadVariationRiskBalancing"},
            (
                "LoadVariationRiskBalancing",
                {"metricProvider": {"type": "Prometheus", "address": "http://m:9090"}, "safeVarianceMargin": 1},
            ),
        ),
        {"usage": {}},
        "metricProvider of LoadVariationRiskBalancing is metrics",
        "safeVarianceMargin",
    ),
    "order of a graph": (
        profile({"queueSort": "-* TopologicalSort", "multiPoint": "NetworkOverhead=5"}),
        {"network-topology-aware": {}},
        "NetworkOverhead",
        "TopologicalSort: write dependsOn",
    ),
    "a plug-in of one's own": (profile({"score": "Moonphase=2"}), {}, "schedulerName", "Moonphase: nothing like it"),
    "a filter that is off": (profile({"filter": "-NodePorts"}), {}, "schedulerName", "NodePorts is disabled"),
    "settings of the process": (
        profile({}, leaderElection={"leaderElect": True}, percentageOfNodesToScore=40),
        {},
        "percentageOfNodesToScore is left out",
        "",
    ),
    "services that are asked": (
        profile({}, extenders=[{"urlPrefix": "http://x", "filterVerb": "filter"}]),
        {},
        "schedulerName",
        "extenders: the protocol is another one",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_kubernetes_scheduler_is_rewritten_and_what_is_lost_is_told(name: str) -> None:
    text, plugins, change, lost = FORMS[name]
    found = convert(text)
    config = load_config(found.text)
    by_name = {one.name: dict(one.arguments) for one in config.plugins}
    for plugin, arguments in plugins.items():
        assert by_name[plugin].items() >= arguments.items()
    assert any(change in each for each in found.changes), found.changes
    assert any(lost in each for each in found.lost) if lost else not found.lost


@pytest.mark.parametrize(
    ("points", "weight"),
    [
        ({}, 1),
        ({"score": "NodeResourcesFit=4"}, 4),
        ({"multiPoint": "NodeResourcesFit=3"}, 3),
        ({"score": "-* NodeResourcesFit=2"}, 2),
        ({"score": "-* NodeResourcesFit"}, 1),
        ({"score": "-*", "filter": "NodeResourcesFit"}, 0),
        ({"score": "-NodeResourcesFit"}, 0),
        ({"filter": "-NodeResourcesFit"}, 1),
    ],
)
def test_the_strategy_of_a_score_has_the_weight_of_the_score(points: dict[str, str], weight: int) -> None:
    """By itself, and as a strategy of its own; beside other scores both count as much as there."""
    plain = {one.name: dict(one.arguments) for one in load_config(convert(profile(points)).text).plugins}
    assert plain["nodeorder"]["leastrequested.weight"] == weight
    strategy = ("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}})
    found = {one.name: dict(one.arguments) for one in load_config(convert(profile(points, strategy)).text).plugins}
    assert found["nodeorder"]["leastrequested.weight"] == 0
    assert found["resource-strategy-fit"]["resourceStrategyFitWeight"] == weight


@pytest.mark.parametrize(
    ("points", "preempts"),
    [({}, True), ({"postFilter": "-*"}, False), ({"multiPoint": "-DefaultPreemption"}, False), ({"score": "-*"}, True)],
)
def test_it_preempts_unless_that_is_off(points: dict[str, str], preempts: bool) -> None:
    assert ("preempt" in load_config(convert(profile(points)).text).actions) is preempts


def test_further_profiles_are_told() -> None:
    whole = yaml.safe_load(profile({}))
    whole["profiles"].append({"schedulerName": "second"})
    assert any("profile second" in each for each in convert(yaml.safe_dump(whole)).lost)


OTHERS = {
    "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n": "migrate from kueue",
    "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nspec: {}\n": "migrate from kai",
    "partitions:\n- name: default\n": "migrate from yunikorn",
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n": "config convert",
    "apiVersion: apps/v1\nkind: Deployment\n": "no configuration of a scheduler",
}


@pytest.mark.parametrize("text", OTHERS)
def test_a_configuration_of_another_scheduler_is_one_error_with_the_way_out(text: str) -> None:
    [wrong] = config_errors(text)
    assert OTHERS[text] in str(wrong)
    if "KubeScheduler" not in text:
        with pytest.raises(ConfigError, match=OTHERS[text]):
            convert(text)
