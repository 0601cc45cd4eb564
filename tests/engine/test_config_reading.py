"""Reading scheduler configurations: Volcano's format and defaults, and errors that name the line."""

from __future__ import annotations

import re

import pytest

from unisono.engine.config.arguments import FLAG_KEYS, Flags
from unisono.engine.config.model import from_flags
from unisono.engine.config_file.reader import DEFAULT_TEXT, config_errors, default_config, load_config
from unisono.engine.plugins.registry import arguments_of, plugin_names
from unisono.errors import ConfigError

GOOD = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
- plugins:
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.resources: nvidia.com/gpu
      binpack.resources.nvidia.com/gpu: 2
configurations:
- name: allocate
  arguments:
    predicateErrorCacheEnable: "false"
- name: allocate
metrics:
  type: prometheus
  address: http://prometheus:9090
  tls.insecureSkipVerify: "true"
"""


def test_every_section_is_read() -> None:
    config = load_config(GOOD, "good.conf")
    assert config.actions == ("enqueue", "allocate")
    assert [[plugin.name for plugin in tier] for tier in config.tiers] == [["priority", "gang"], ["binpack"]]
    gang, binpack = config.plugins[1:]
    assert gang.flags == Flags(preemptable=False)
    assert binpack.arguments["binpack.resources.nvidia.com/gpu"] == 2
    assert config.arguments_of("allocate") == {"predicateErrorCacheEnable": "false"}
    assert config.arguments_of("backfill") == {}
    assert config.metrics == {
        "type": "prometheus",
        "address": "http://prometheus:9090",
        "tls.insecureSkipVerify": "true",
    }


def test_the_strict_default_is_that_of_the_helm_chart() -> None:
    config = load_config("--volcano-strict")
    assert all(not plugin.arguments for plugin in config.plugins)
    assert {plugin.name for plugin in default_config().plugins} - {plugin.name for plugin in config.plugins} == {
        "budgets",
        "calendar",
        "deviceshare",
        "failed-nodes",
        "hot-spares",
        "network-topology-aware",
        "node-checks",
        "one-of",
        "user-limits",
    }
    assert config.actions == ("enqueue", "allocate", "backfill")
    assert [[plugin.name for plugin in tier] for tier in config.tiers] == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"],
    ]
    assert [p.name for p in config.plugins if not p.flags.preemptable] == ["gang", "drf"]


def test_absent_flags_have_volcanos_defaults() -> None:
    flags = load_config("actions: allocate\ntiers: [{plugins: [{name: gang}]}]").plugins[0].flags
    off = {key for key, flag in FLAG_KEYS.items() if not getattr(flags, flag.attribute)}
    assert off == {"enableHierarchy", "enabledClusterOrder"}


def test_a_null_flag_counts_as_absent() -> None:
    config = load_config("actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enableJobOrder:\n    arguments:\n")
    assert config.plugins[0].flags == Flags()


def test_from_flags_leaves_absent_flags_off() -> None:
    config = from_flags(
        ["allocate"],
        [[{"name": "gang", "enableJobReady": True, "enableJobOrder": False}]],
        [{"name": "allocate", "arguments": {"a": 1}}, {"name": "allocate", "arguments": {"a": 2}}],
    )
    flags = config.plugins[0].flags
    assert flags.job_ready
    assert not any(getattr(flags, f.attribute) for f in FLAG_KEYS.values() if f.attribute != "job_ready")
    assert config.arguments_of("allocate") == {"a": 1}


@pytest.mark.parametrize("actions", ["allocate", '"allocate,backfill"', "' enqueue ,allocate'"])
def test_actions_are_trimmed(actions: str) -> None:
    assert all(name == name.strip() for name in load_config(f"actions: {actions}").actions)


def test_a_shorter_file_than_the_default_is_complete() -> None:
    """Mission example 10: no proportion, so nobody orders or limits queues."""
    config = load_config(
        'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n'
        "  - name: conformance\n- plugins:\n  - name: drf\n  - name: predicates\n  - name: nodeorder\n"
        "  - name: binpack\n"
    )
    assert len(config.plugins) == 7


def test_yaml_anchors_and_merges_are_understood() -> None:
    config = load_config(
        "actions: allocate\ntiers:\n- plugins:\n  - &gang {name: gang, enablePreemptable: false}\n"
        "- plugins:\n  - {<<: *gang, name: drf, enableJobOrder: false}\n"
    )
    assert config.plugins[1].flags == Flags(preemptable=False, job_order=False)


def plugin(lines: str) -> str:
    return f"actions: allocate\ntiers:\n- plugins:\n  - name: gang\n{lines}"


ERRORS = {
    "empty": ("", 0, "the file is empty"),
    "a list": ("- a\n", 1, "must be a map"),
    "broken YAML": ("actions: [a\ntiers: b\n", 2, "the YAML is broken"),
    "deep JSON": ('{"tiers":' + "[" * 3000 + "]" * 3000 + "}", 0, "the YAML is nested too deep"),
    "empty actions": ('actions: ""\n', 1, "actions must be a text"),
    "actions as list": ("actions: [allocate]\n", 1, "actions must be a text"),
    "trailing comma": ("actions: 'allocate,'\n", 1, "an empty name"),
    "misspelt action": ("actions: alocate\n", 1, "unknown action alocate; did you mean allocate?"),
    "top-level key": ("actions: allocate\ntier: []\n", 2, "unknown key tier in the scheduler configuration; did you"),
    "key twice": ("actions: allocate\nactions: backfill\n", 2, "actions is given twice"),
    "tiers as map": ("actions: allocate\ntiers: {plugins: []}\n", 2, "tiers must be a list"),
    "tier key": ("actions: allocate\ntiers:\n- plugin: []\n", 3, "unknown key plugin in a tier; did you mean plugins?"),
    "no name": ("actions: allocate\ntiers:\n- plugins:\n  - enableJobOrder: true\n", 4, "has no name"),
    "plug-in": (plugin("  - name: binpak\n"), 5, "unknown plug-in binpak; did you mean binpack?"),
    "strange plug-in": (plugin("  - name: zzzzzz\n"), 5, "unknown plug-in zzzzzz"),
    "mistyped plug-in": (plugin("  - name: reschedulling\n"), 5, "did you mean rescheduling?"),
    "plug-in twice": (plugin("- plugins:\n  - name: gang\n"), 6, "listed twice (also on line 4)"),
    "flag": (
        plugin("    enableJobOrdr: true\n"),
        5,
        "unknown key enableJobOrdr of plug-in gang; did you mean enableJobOrder?",
    ),
    "odd spelling": (plugin("    enableOverused: true\n"), 5, "did you mean enabledOverused?"),
    "flag type": (plugin('    enableJobOrder: "true"\n'), 5, "must be true or false, not 'true'"),
    "no arguments": (plugin("    arguments: {x: 1}\n"), 5, "unknown argument x of plug-in gang; plug-in gang has no"),
    "argument": (
        plugin("  - name: binpack\n    arguments:\n      binpack.wait: 1\n"),
        7,
        "unknown argument binpack.wait of plug-in binpack; did you mean binpack.weight?",
    ),
    "argument type": (
        plugin('  - name: binpack\n    arguments:\n      binpack.weight: "5"\n'),
        7,
        "argument binpack.weight of plug-in binpack must be a whole number without quotes, not '5'",
    ),
    "bool argument": (
        plugin("  - name: predicates\n    arguments:\n      predicate.NodePortsEnable: 3\n"),
        7,
        "must be true or false, not 3",
    ),
    "meant by its words": (
        plugin("  - name: binpack\n    arguments:\n      binpack.cpu.weight: 3\n"),
        7,
        "unknown argument binpack.cpu.weight of plug-in binpack; did you mean binpack.cpu?",
    ),
    "another plug-in's argument": (
        plugin("  - name: predicates\n    arguments:\n      nodeaffinity.weight: 3\n"),
        7,
        "; it is one of plug-in nodeorder",
    ),
    "threshold of an older version": (
        plugin("  - name: usage\n    arguments:\n      thresholds:\n        CPUUsageAvg.5m: 90\n"),
        8,
        "unknown key CPUUsageAvg.5m in thresholds of plug-in usage; did you mean cpu?",
    ),
    "threshold": (
        plugin("  - name: usage\n    arguments:\n      thresholds: {mem: 150}\n"),
        7,
        "mem in thresholds of plug-in usage must be a whole number of percent, 0 to 100, not 150",
    ),
    "strategy": (
        plugin("  - name: resource-strategy-fit\n    arguments:\n      resources:\n        cpu: {type: Most}\n"),
        8,
        "type in cpu in resources of plug-in resource-strategy-fit must be MostAllocated or LeastAllocated, not 'Most'",
    ),
    "block without its switch": (
        plugin("  - name: resource-strategy-fit\n    arguments:\n      sra: {resources: nvidia.com/gpu}\n"),
        7,
        "sra of plug-in resource-strategy-fit has no enable",
    ),
    "window": (
        plugin("  - name: tdm\n    arguments:\n      tdm.revocable-zone.z: evenings\n"),
        7,
        "must be a window such as 08:00-18:00, or two cron lines such as 0 8 * * *:0 18 * * *, not 'evenings'",
    ),
    "duration in a map": (
        plugin("  - name: eviction-guard\n    arguments:\n      eviction-guard.minRunTime.queues: {a: 5}\n"),
        7,
        "a in eviction-guard.minRunTime.queues of plug-in eviction-guard must be a duration such as 1m30s, not 5",
    ),
    "weight in a map": (
        plugin("  - name: fair-share\n    arguments:\n      fair-share.weights: {bob: 0}\n"),
        7,
        "bob in fair-share.weights of plug-in fair-share must be a number above 0, not 0",
    ),
    "what the plug-in itself refuses": (
        plugin("  - name: fragmentation\n    arguments:\n      fragmentation.usual: now\n"),
        7,
        "fragmentation.usual must be one of present, seen, not now",
    ),
    "parameter of a strategy": (
        plugin(
            "  - name: rescheduling\n    arguments:\n      strategies:\n      - name: lowNodeUtilization\n"
            "        params:\n          threshold: {cpu: 20}\n"
        ),
        10,
        "lowNodeUtilization has no parameter threshold",
    ),
    "hierarchy": (
        plugin("  - name: drf\n    enableHierarchy: true\n  - name: proportion\n"),
        4,
        "proportion and drf with hierarchy enabled conflicts",
    ),
    "unnamed configuration": ("actions: allocate\nconfigurations:\n- arguments: {}\n", 3, "has no name"),
    "configuration": (
        "actions: allocate\nconfigurations:\n- name: alocate\n",
        3,
        "unknown action alocate; did you mean allocate?",
    ),
    "configuration key": ("actions: allocate\nconfigurations:\n- {name: allocate, args: {}}\n", 3, "unknown key args"),
    "action argument": (
        "actions: allocate\nconfigurations:\n- name: preempt\n  arguments:\n    maxCandidateNodesAbsolut: 3\n",
        5,
        "did you mean maxCandidateNodesAbsolute?",
    ),
    "nested metrics": ("actions: allocate\nmetrics:\n  tls:\n    insecureSkipVerify: true\n", 4, "write tls.NAME"),
    "metrics key": (
        "actions: allocate\nmetrics:\n  adress: x\n",
        3,
        "unknown key adress in metrics; did you mean address?",
    ),
    "metrics type": (
        "actions: allocate\nmetrics:\n  address: http://x\n  type: prometheus_adapt\n",
        4,
        "type of metrics must be one of prometheus, prometheus_adaptor, elasticsearch, not prometheus_adapt",
    ),
    "metrics without an address": (
        "actions: allocate\nmetrics:\n  type: prometheus\n",
        3,
        "address of metrics must be a URL such as http://prometheus.monitoring:9090",
    ),
    "metrics interval": (
        "actions: allocate\nmetrics:\n  type: prometheus\n  address: http://x\n  interval: often\n",
        5,
        "interval of metrics must be a duration above 0 such as 30s",
    ),
    "a key that is a list": ("actions: allocate\n? [a, b]\n: c\n", 2, "not a plain name"),
}


@pytest.mark.parametrize(("text", "line", "words"), ERRORS.values(), ids=ERRORS)
def test_a_mistake_is_one_sentence_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(text, "scheduler.conf")
    message = str(caught.value)
    assert words in message
    assert message.startswith(f"scheduler.conf:{line}: " if line else "scheduler.conf: ")
    assert caught.value.line == line
    assert "\n" not in message


def test_every_mistake_inside_a_value_is_named() -> None:
    text = plugin(
        "  - name: usage\n    arguments:\n      thresholds: {cpu: high, gpus: 3}\n      cpu.weight: 2.5\n"
        "  - name: resource-strategy-fit\n    arguments:\n      resources: {a: {weight: 0}, b: {typ: MostAllocated}}\n"
    )
    assert [error.line for error in config_errors(text)] == [7, 7, 8, 11, 11]


@pytest.mark.parametrize("name", plugin_names())
def test_no_map_list_or_choice_of_a_plug_in_is_unchecked(name: str) -> None:
    """Either its shape is told, or the plug-in itself refuses nonsense in it."""
    for argument in arguments_of(name) or ():
        if argument.kind not in ("map", "list") or not argument.effective:
            continue
        nonsense = "{zzz: {zzz: zzz}}" if argument.kind == "map" else "[-3]"
        listed = "" if name == "gang" else "  - name: gang\n"
        text = f"actions: allocate\ntiers:\n- plugins:\n{listed}  - name: {name}\n    arguments:\n"
        assert config_errors(f"{text}      {argument.key}: {nonsense}\n"), argument.key


def test_the_same_pair_in_two_tiers_is_accepted() -> None:
    text = (
        "actions: allocate\ntiers:\n- plugins: [{name: drf, enableHierarchy: true}]\n- plugins: [{name: proportion}]\n"
    )
    assert len(load_config(text).tiers) == 2


def test_default_text_parses_without_a_file_name() -> None:
    assert load_config(DEFAULT_TEXT) == default_config()


def test_every_load_starts_from_the_defaults() -> None:
    assert load_config(GOOD).arguments_of("allocate")
    assert load_config("actions: allocate").arguments_of("allocate") == {}


TIERS = "tiers:\n- plugins:\n  - name: gang\n"


def test_without_actions_the_default_ones_are_in_force_and_a_note_says_so() -> None:
    config = load_config(TIERS)
    assert config.actions == ("enqueue", "allocate", "backfill")
    assert config.notes == ('no actions: the default ones are in force, "enqueue, allocate, backfill"',)


def test_a_configuration_without_gang_is_told() -> None:
    (note,) = load_config("actions: allocate\ntiers: []\n").notes
    assert "no plug-in gang" in note


@pytest.mark.parametrize(
    "args",
    [
        'args: |\n    {\n      "gpuMemoryWeight": 1.0,\n      "gpuComputeWeight": 0.8\n    }\n',
        'args: \'{"gpuMemoryWeight": 1.0, "gpuComputeWeight": 0.8}\'\n',
        "args: {gpuMemoryWeight: 1.0, gpuComputeWeight: 0.8}\n",
        "arguments:\n    gpuMemoryWeight: 1.0\n    gpuComputeWeight: 0.8\n",
    ],
    ids=["block", "quoted", "map", "arguments"],
)
def test_plug_ins_of_nodeorder_score_and_do_nothing_else(args: str) -> None:
    config = load_config(f"actions: allocate\n{TIERS}nodeorder:\n- name: gpu-aware\n  {args}")
    added = config.tiers[-1][0]
    assert (added.name, added.arguments) == ("gpu-aware", {"gpuMemoryWeight": 1.0, "gpuComputeWeight": 0.8})
    assert added.flags.node_order and not added.flags.predicate and not added.flags.job_order
    assert load_config(f"actions: allocate\n{TIERS}nodeorder: []\n").tiers == config.tiers[:-1]


@pytest.mark.parametrize(
    ("lines", "line", "told"),
    [
        ('- name: gpu-aware\n  args: |\n    {\n      "gpuMemoryWeigt": 1\n    }\n', 8, "did you mean gpuMemoryWeight?"),
        ("- name: gpu-aware\n  args: |\n    {\n", 7, "must be a map, or the same as JSON text"),
        ("- name: gpu-awar\n", 5, "did you mean gpu-aware?"),
        ("- args: {}\n", 5, "has no name"),
        ("- name: gang\n", 5, "listed twice"),
        ("- name: gpu-aware\n  arg: {}\n", 6, "unknown key arg in a plug-in of nodeorder"),
    ],
)
def test_mistakes_in_nodeorder_name_their_line(lines: str, line: int, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)) as error:
        load_config(f"{TIERS}nodeorder:\n{lines}")
    assert error.value.line == line


FLAGS = """\
# tuning
--enable-queue-schedule=true
--cache-pod-group-interval=30s
--scheduler-worker-threads=16
--bind-worker-threads=8
--min-resync-interval=12h
"""


def test_flags_of_a_command_line_change_the_default_and_each_without_effect_says_why() -> None:
    config = load_config(FLAGS)
    assert config.bind_concurrency == 8
    assert (config.actions, config.tiers) == (default_config().actions, default_config().tiers)
    told = " ".join(config.notes)
    for name in (
        "enable-queue-schedule",
        "cache-pod-group-interval",
        "scheduler-worker-threads",
        "min-resync-interval",
    ):
        assert f"--{name} has no effect: " in told
    assert "bind-worker-threads" not in told


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("--bind-worker-thread=8\n", 1, "did you mean --bind-worker-threads?"),
        ("--bind-worker-threads=0\n", 1, "must be a whole number above 0"),
        ("--bind-worker-threads=9999\n", 1, "must be at most 4096"),
        ("\n--min-resync-interval=long\n", 2, "must be a duration"),
        ("--enable-queue-schedule=false\n", 1, "cannot be turned off"),
        ("--bind-worker-threads=8\nactions: allocate\n", 2, "is no flag"),
        ("--bind-worker-threads=8\n--bind-worker-threads=9\n", 2, "given twice"),
    ],
)
def test_mistakes_in_flags_name_their_line(text: str, line: int, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)) as error:
        load_config(text)
    assert error.value.line == line


def test_code_of_others_is_not_imported_where_that_is_not_wanted() -> None:
    text = "tiers:\n- plugins:\n  - name: gang\n  - name: no.such.module:Thing\n    arguments: {x: 1}\n"
    assert load_config(text, imports=False).plugins[1].arguments == {"x": 1}
    with pytest.raises(ConfigError):
        load_config(text)
