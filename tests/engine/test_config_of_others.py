"""Shapes of configurations that guides, charts and vendors publish: right, or every mistake has its right form."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from unisono.engine.config.arguments import Argument
from unisono.engine.config.model import ACTION_ARGUMENTS
from unisono.engine.config_file.dialects import ACTIONS, ARGUMENTS, PLUGINS, SECTIONS, convert
from unisono.engine.config_file.reader import config_errors, load_config
from unisono.engine.plugins.registry import BUILT_IN, arguments_of, plugin_names

Plugin = str | tuple[str, dict[str, Any]]


def written(*tiers: tuple[Plugin, ...], actions: str = "enqueue, allocate, backfill", **sections: Any) -> str:
    """A file of these tiers; a plug-in is a name, or a name with its arguments."""
    listed = [
        {"plugins": [{"name": one} if isinstance(one, str) else {"name": one[0], "arguments": one[1]} for one in tier]}
        for tier in tiers
    ]
    return yaml.safe_dump({"actions": actions, "tiers": listed, **sections}, sort_keys=False)


FIRST: tuple[Plugin, ...] = ("priority", "gang", "conformance")
SECOND: tuple[Plugin, ...] = ("drf", "predicates", "proportion", "nodeorder")


def with_one(name: str, **arguments: Any) -> str:
    """The usual tiers, and one plug-in with arguments, whose keys have ``__`` for a dot and ``_`` for a dash."""
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in arguments.items()}
    return written(FIRST, (*(one for one in SECOND if one != name), (name, named)))


RIGHT = {
    "Volcano 1.6": written(FIRST, ("overcommit", *SECOND, "binpack")),
    "Volcano 1.10 with capacity": written(FIRST, ("overcommit", "drf", "predicates", "capacity", "nodeorder")),
    "the chart's, with switches": (
        'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n'
        "    enablePreemptable: false\n  - name: conformance\n- plugins:\n  - name: overcommit\n  - name: drf\n"
        "    enablePreemptable: false\n  - name: predicates\n  - name: proportion\n  - name: nodeorder\n"
    ),
    "weights of nodeorder": with_one("nodeorder", leastrequested__weight=0, mostrequested__weight=1),
    "weights of binpack": written(
        FIRST,
        (
            *SECOND,
            ("binpack", {"binpack.weight": 10, "binpack.resources": "a.b/c, d.e/f", "binpack.resources.a.b/c": 2}),
        ),
    ),
    "tdm of one day": with_one("tdm", **{"tdm.revocable-zone.rz1": "10:00-21:00", "tdm.evict.period": "1m"}),
    "tdm over midnight": with_one("tdm", **{"tdm.revocable-zone.rz1": "22:00-06:00"}),
    "tdm as cron lines": with_one("tdm", **{"tdm.revocable-zone.a": "0 8 * * *:0 18 * * *"}),
    "sla": with_one("sla", sla_waiting_time="1h2m3s"),
    "load with a source": written(
        FIRST,
        (*SECOND, ("usage", {"usage.weight": 5, "thresholds": {"cpu": 80, "mem": 70}})),
        metrics={"type": "prometheus", "address": "http://metrics.example:9090", "interval": "30s"},
    ),
    "estimates of load as a map": with_one(
        "usage", estimator={"request_ratio": 0.7, "burst_ratio": 0, "be_cpu": "250m", "be_mem": "200Mi"}
    ),
    "preempting by topology": written(
        FIRST,
        SECOND,
        actions="enqueue, allocate, preempt",
        configurations=[{"name": "preempt", "arguments": {"enableTopologyAwarePreemption": True}}],
    ),
    "queues of nodes": with_one("nodegroup", strict=False),
    "hierarchical nodegroup": (
        "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: nodegroup\n    enableHierarchy: true\n"
    ),
    "an extender": with_one(
        "extender", **{"extender.urlPrefix": "http://127.0.0.1:1", "extender.httpTimeout": "100ms"}
    ),
    "strategies of fit": with_one(
        "resource-strategy-fit",
        resourceStrategyFitWeight=10,
        resources={"cpu": {"type": "LeastAllocated", "weight": 1}, "x.y/z*": {"type": "MostAllocated", "weight": 2}},
    ),
    "all on one tier": "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n",
    "an empty tier": "actions: allocate\ntiers:\n- plugins:\n- plugins:\n  - name: gang\n",
    "bools as Go writes them": with_one("deviceshare", **{"deviceshare.VGPUEnable": "true"}),
}

# What is right and has no effect, or not all of it: a line of the notes.
NOTED = {
    "cards of Volcano before 1.8": (
        with_one("predicates", **{"predicate.GPUSharingEnable": True}),
        "predicate.GPUSharingEnable of plug-in predicates has no effect: it is deviceshare.GPUSharingEnable",
    ),
    "NPUs of HAMi": (
        with_one("deviceshare", **{"deviceshare.AscendHAMiVNPUEnable": True}),
        "deviceshare.AscendHAMiVNPUEnable of plug-in deviceshare has no effect: NPUs are counted per node",
    ),
    "a lock of nodes": (with_one("deviceshare", **{"deviceshare.NodeLockEnable": True}), "NodeLockEnable"),
    "errors that are not kept": (
        written(
            FIRST, SECOND, configurations=[{"name": "allocate", "arguments": {"predicateErrorCacheEnable": False}}]
        ),
        "predicateErrorCacheEnable of action allocate has no effect",
    ),
    "the configuration of an action that does not run": (
        written(FIRST, SECOND, configurations=[{"name": "preempt", "arguments": {"minCandidateNodesAbsolute": 5}}]),
        "the configuration of preempt has no effect: preempt is not one of the actions",
    ),
    "twice": (
        written(FIRST, SECOND, configurations=[{"name": "allocate"}, {"name": "allocate"}]),
        "allocate is configured twice; the first time holds",
    ),
    "no gang": (written(SECOND), "no plug-in gang"),
    "no actions": ("tiers:\n- plugins:\n  - name: gang\n", "no actions: the default ones are in force"),
}

# What is wrong: the line of each error, and what it says.
WRONG: dict[str, tuple[str, list[tuple[int, str]]]] = {
    "gangs apart, of Volcano 1.16": (
        written(FIRST, (*SECOND, ("group-topology-affinity", {"weight": 5}))),
        [(12, "gangs stand apart by the annotation unisono.io/apart")],
    ),
    "strategies of guides": (
        written(FIRST, (("rescheduling", {"strategies": [{"name": "offlineOnly"}]}),), actions="allocate, shuffle"),
        [(10, "offlineOnly; it is a design of Volcano that no version has built: remove it")],
    ),
    "a cache, a source and a weight of others": (
        written(
            FIRST,
            (("network-topology-aware", {"network-topology-aware.weight": 10}),),
            configurations=[{"name": "allocate", "arguments": {"enablePredicateErrorCache": True}}],
            metrics={"type": "metrics-server"},
        ),
        [(10, "did you mean weight?"), (14, "predicateErrorCacheEnable"), (16, "must be one of prometheus")],
    ),
    "plug-ins beside plugins": (
        "actions: allocate\ntiers:\n- plugins:\n- name: priority\n- name: gang\n",
        [(4, "indent - name: priority below - plugins:"), (5, "indent - name: gang below - plugins:")],
    ),
    "arguments at the top": (
        "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\narguments:\n  binpack.weight: 1\n",
        [(5, "belongs to a plug-in: indent it")],
    ),
    "an argument beside the name": (
        "actions: allocate\ntiers:\n- plugins:\n  - name: sla\n    sla-waiting-time: 1h\n",
        [(5, "it is an argument: write arguments: {sla-waiting-time: ...}")],
    ),
    "a switch among the arguments": (
        "actions: allocate\ntiers:\n- plugins:\n  - name: nodegroup\n    arguments:\n      enableHierarchy: true\n",
        [(6, "it is a switch: write it beside name")],
    ),
    "a switch of kube-batch": (
        "actions: allocate\ntiers:\n- plugins:\n  - name: drf\n    disableTaskOrder: true\n"
        "    jobOrderDisabled: true\n",
        [(5, "write enableTaskOrder: false"), (6, "write enableJobOrder: false")],
    ),
    "a switch as Go names it": (
        "actions: allocate\ntiers:\n- plugins:\n  - name: capacity\n    enabledHierarchy: true\n",
        [(5, "did you mean enableHierarchy?")],
    ),
    "pressure of kube-batch": (
        with_one("predicates", **{"predicate.MemoryPressureEnable": True, "predicate.PIDPressureEnable": True}),
        [(13, "have taints"), (14, "have taints")],
    ),
    "proportional predicates": (
        with_one("predicates", **{"predicate.ProportionalEnable": True, "predicate.resources.a.b/c.cpu": 8}),
        [(13, "resource-strategy-fit"), (14, "resource-strategy-fit")],
    ),
    "vGPUs of predicates": (
        with_one("predicates", **{"predicate.VGPUEnable": True}),
        [(13, "it is deviceshare.VGPUEnable of plug-in deviceshare")],
    ),
    "its name in front": (with_one("numa-aware", **{"numa-aware.weight": 10}), [(14, "did you mean weight?")]),
    "no name in front": (with_one("binpack", weight=10), [(14, "did you mean binpack.weight?")]),
    "no name in front, a device": (
        with_one("deviceshare", VGPUEnable=True),
        [(14, "did you mean deviceshare.VGPUEnable?")],
    ),
    "a switch of a score": (
        with_one("nodeorder", **{"nodeorder.leastrequested.enable": False, "nodeorder.weight": 10}),
        [(13, "a weight of 0 turns a score off"), (14, "each score has a weight of its own")],
    ),
    "another name of the time to wait": (
        with_one("sla", **{"sla.JobWaitingTime": "30m"}),
        [(14, "did you mean sla-waiting-time?")],
    ),
    "reserving as Volcano until 1.5": (
        written(FIRST, SECOND, actions="enqueue, elect, allocate, reserve"),
        [(1, "unknown action elect; it is of Volcano until 1.5"), (1, "plug-in reservation holds room")],
    ),
    "a plug-in as an action": (
        written(FIRST, SECOND, actions="allocate, rescheduling"),
        [(1, "a plug-in and no action: list it below plugins")],
    ),
    "capitals": (
        written(FIRST, SECOND, actions="allocate, gangPreempt, gangReclaim"),
        [(1, "did you mean gangpreempt?"), (1, "did you mean gangreclaim?")],
    ),
    "Huawei's CCE": (
        written(FIRST, ("oversubscription", *SECOND), ("cce-gpu-topology-predicate", "xgpu", "nodelocalvolume")),
        [(8, "Huawei's CCE"), (14, "deviceshare"), (15, "deviceshare"), (16, "predicates looks at volumes")],
    ),
    "Ascend's MindCluster": (
        written(
            (*FIRST, "volcano-npu_v6.0.RC1_linux-aarch64"),
            SECOND,
            configurations=[{"name": "init-params", "arguments": {"grace-over-time": "900", "nslb-version": "1.0"}}],
        ),
        [(7, "Ascend's build of Volcano"), (14, "Ascend's build of Volcano")],
    ),
    "PaddleFlow": (
        written(FIRST, ("kmpredicates", "proportionpf"), actions="allocate, preemptpf"),
        [(1, "here it is preempt"), (8, "here it is predicates"), (9, "here it is proportion")],
    ),
    "KAI-Scheduler": (
        written(("nodeplacement", "minruntime", "ray"), actions="allocate, consolidation, stalegangeviction"),
        [(1, "defragment"), (1, "remove it"), (4, "binpack"), (5, "eviction-guard"), (6, "remove it")],
    ),
    "a factor per queue": (
        with_one("overcommit", **{"max-queue-overcommit-factor": 1.5}),
        [(14, "a queue has no factor of its own here")],
    ),
    "a design that was not built": (
        written(FIRST, SECOND, configurations=[{"name": "allocate", "arguments": {"QueueScoreOrderEnable": True}}]),
        [(15, "no version has built")],
    ),
    "a plug-in of one's own": (written(("magic", "gang")), [(4, "one of your own is named as module:Class")]),
    "numbers in quotes": (
        with_one("binpack", **{"binpack.weight": "10", "binpack.cpu": "5"}),
        [(14, "write binpack.weight: 10"), (15, "write binpack.cpu: 5")],
    ),
    "percent": (with_one("usage", **{"thresholds.cpu": "80%"}), [(14, "write thresholds.cpu: 80")]),
    "a time without its unit": (with_one("sla", sla_waiting_time=30), [(14, "write sla-waiting-time: 30s")]),
    "load of Volcano 1.6": (
        with_one("usage", thresholds={"CPUUsageAvg.5m": 90, "MEMUsageAvg.5m": 80}),
        [(15, "did you mean cpu?"), (16, "did you mean mem?")],
    ),
    "parts above one": (
        with_one("usage", estimator={"request_ratio": 70, "risk_factor": 0.5, "be_cpu": "much"}),
        [(15, "0 to 1"), (16, "at least 1"), (17, "a quantity such as 250m")],
    ),
    "a window without an end": (
        with_one("tdm", **{"tdm.revocable-zone.a": "10:00", "tdm.revocable-zone.b": "25:00-26:00"}),
        [(14, "tdm.revocable-zone.a"), (15, "tdm.revocable-zone.b")],
    ),
    "a word that only looks alike": (
        with_one("predicates", **{"predicate.FooEnable": True}),
        [(13, "unknown argument predicate.FooEnable of plug-in predicates")],
    ),
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_what_is_right_is_read_without_a_word(text: str) -> None:
    assert config_errors(text) == []
    assert load_config(text).notes == ()


@pytest.mark.parametrize(("text", "note"), NOTED.values(), ids=NOTED)
def test_what_has_no_effect_is_told(text: str, note: str) -> None:
    (told,) = load_config(text).notes
    assert note in told


@pytest.mark.parametrize(("text", "wanted"), WRONG.values(), ids=WRONG)
def test_every_mistake_has_its_line_and_the_right_form(text: str, wanted: list[tuple[int, str]]) -> None:
    found = config_errors(text)
    assert [error.line for error in found] == [line for line, _ in wanted], [str(error) for error in found]
    for error, (_, part) in zip(found, wanted, strict=True):
        assert part in str(error)


def test_letters_alone_mean_nothing() -> None:
    (error,) = config_errors(with_one("predicates", **{"predicate.FooEnable": True}))
    assert "did you mean" not in str(error)


@pytest.mark.parametrize("text", [text for text, _ in WRONG.values()], ids=WRONG)
def test_what_is_wrong_converts_and_nothing_is_lost_in_silence(text: str) -> None:
    found = convert(text)
    assert found.changes or found.lost or config_errors(found.text)


def test_a_vendors_configuration_converts_to_one_that_is_read() -> None:
    for name in ("plug-ins beside plugins", "Huawei's CCE", "Ascend's MindCluster", "KAI-Scheduler"):
        assert config_errors(convert(WRONG[name][0]).text) == [], name


def test_switches_and_arguments_are_put_where_they_belong() -> None:
    lines = "  - name: nodegroup\n    arguments: {enableHierarchy: true}\n  - name: sla\n    sla-waiting-time: 1h\n"
    found = convert(f"actions: allocate\ntiers:\n- plugins:\n{lines}")
    assert config_errors(found.text) == []
    assert [plugin.arguments for plugin in load_config(found.text).plugins] == [{}, {"sla-waiting-time": "1h"}]
    assert load_config(found.text).plugins[0].flags.hierarchy
    assert found.lost == []


def idle_arguments() -> list[tuple[str, Argument]]:
    owners = {f"plug-in {name}": arguments_of(name) or () for name in plugin_names()}
    owners |= {f"action {name}": found for name, found in ACTION_ARGUMENTS.items()}
    return [(owner, one) for owner, specs in owners.items() for one in specs if not one.effective]


@pytest.mark.parametrize(("owner", "argument"), idle_arguments(), ids=lambda one: getattr(one, "key", str(one)))
def test_every_argument_without_effect_is_told(owner: str, argument: Argument) -> None:
    values = {"bool": not argument.default, "int": 7, "text": "other", "list": [{"utilization": 0, "score": 1}]}
    values["duration"] = "7m"
    given = {argument.key: values[argument.kind]}
    kind, name = owner.split(" ", 1)
    if kind == "plug-in":
        text = written(("gang", (name, given)))
    else:
        text = written(("gang",), actions=name, configurations=[{"name": name, "arguments": given}])
    (told,) = load_config(text).notes
    assert f"{argument.key} of {owner} has no effect" in told


def test_the_tables_name_what_exists() -> None:
    assert all(not said.here or said.here in BUILT_IN for said in PLUGINS.values())
    assert not set(PLUGINS) & set(BUILT_IN)
    assert {said.here for said in ACTIONS.values()} <= {"", "defragment", "preempt"}
    assert all(said.says for table in (ACTIONS, PLUGINS, ARGUMENTS, SECTIONS) for said in table.values())
    for owner, word in ARGUMENTS:
        assert not any(spec.key == word for spec in arguments_of(owner) or ()), word
