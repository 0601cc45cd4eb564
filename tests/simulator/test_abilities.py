"""Every action and plug-in decides in a simulation as it does live, or is refused by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.simulator.worlds import cluster, job, simulate, times

from unisono.engine.actions import action_names
from unisono.engine.config_file.reader import load_config
from unisono.engine.plugins.registry import plugin_names
from unisono.errors import ConfigError
from unisono.simulator.abilities import ACTING, ACTIONS, LIVE_RECHECK, MISSING, recheck_seconds, refuse_missing
from unisono.simulator.clusters import ClusterError, build
from unisono.simulator.experiment import read_experiment
from unisono.simulator.workload.job import Job, Role, check
from unisono.simulator.world.outcome import Run
from unisono.simulator.world.settings import Settings


def config(actions: str = "enqueue, allocate", *plugins: str, more: str = "") -> str:
    lines = "".join(f"  - {one}\n" for one in ("{name: priority}", *plugins, "{name: gang}", "{name: predicates}"))
    return f'actions: "{actions}"\ntiers:\n- plugins:\n{lines}{more}'


def test_each_plugin_and_action_is_in_the_table_once() -> None:
    assert set(plugin_names()) == ACTING | set(MISSING)
    assert not ACTING & set(MISSING)
    assert set(action_names()) == ACTIONS


@pytest.mark.parametrize("name", plugin_names())
def test_a_plugin_acts_or_is_refused_by_its_name(name: str) -> None:
    given = load_config(f"actions: allocate\ntiers:\n- plugins:\n  - name: {name}\n")
    if name not in MISSING:
        refuse_missing(given, "a.conf")
        return
    with pytest.raises(ConfigError, match=rf"a\.conf: .*plug-in {name} goes by "):
        refuse_missing(given, "a.conf")


def test_what_cannot_be_simulated_is_named_together(tmp_path: Path) -> None:
    files = {
        "jobs.jsonl": '{"unisono": "workload", "version": 1}\n'
        '{"name": "a", "submit": 0, "runSeconds": 5, "roles": [{"count": 1}]}\n',
        "cluster.yaml": "nodes:\n- {name: node, cpu: 8, memory: 8Gi}\n",
        "a.conf": config(
            "enqueue, allocate, shuffle",
            "{name: usage}",
            "{name: extender, arguments: {extender.urlPrefix: 'http://x'}}",
            "{name: rescheduling, arguments: {strategies: [{name: lowNodeUtilization,"
            " params: {thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}}]}}",
        ),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"plug-in usage .*plug-in extender .*strategy lowNodeUtilization") as caught:
        read_experiment(tmp_path / "jobs.jsonl", tmp_path / "cluster.yaml", tmp_path / "a.conf", Settings())
    assert "a.conf" in str(caught.value)


def starts(run: Run) -> dict[str, float | None]:
    return {name: started for name, (started, _) in times(run).items()}


@pytest.mark.parametrize("late", [False, True])
def test_users_take_turns_by_what_they_used(late: bool) -> None:
    """Also where one who used much comes back after a time without any job."""
    held = [job("a", seconds=5000, gpus=8, user="alice")]
    more = [job(f"a{n}", 5100 if late else n, 1000, gpus=8, user="alice") for n in range(1, 4)]
    other = [job("keeps", 5000, 200, gpus=8, user="carol")] if late else []
    bob = [job(f"b{n}", 5101 if late else 10, 1000, gpus=8, user="bob") for n in range(1, 3)]
    shares = config("enqueue, allocate", "{name: fair-share, arguments: {fair-share.by: user}}")
    run = simulate([*held, *more, *other, *bob], cluster(1, 8), shares)
    first = 5200 if late else 5000
    assert starts(run)["b1"] == first
    assert starts(run)["b2"] == first + 1000
    assert starts(run)["a1"] == first + 2000


def small(**more: Any) -> list[Job]:
    """One on each of four nodes, of which two have room for all of them."""
    return [job(f"s{n}", 0, 20_000, roles=(Role(count=1, gpus=1, cpu_milli=14_000),), **more) for n in range(4)]


DEFRAGMENT = config(
    "enqueue, allocate, backfill, defragment",
    "{name: nodeorder}",
    "{name: conformance}",
    more="configurations:\n- {name: defragment, arguments: {minRunTime: 1m, interval: 1m}}\n",
)


def test_defragment_moves_pods_that_a_controller_would_make_again() -> None:
    run = simulate([*small(), job("big", 2000, 100, gpus=8)], cluster(4, 8), DEFRAGMENT)
    assert starts(run)["big"] == 2000
    assert len(run.evictions) == 1


@pytest.mark.parametrize(("checkpoint", "moved"), [(None, False), (600.0, True), (0.0, True)])
def test_defragment_spares_work_that_is_not_saved(checkpoint: float | None, moved: bool) -> None:
    run = simulate([*small(checkpoint=checkpoint), job("big", 7000, 100, gpus=8)], cluster(4, 8), DEFRAGMENT)
    assert bool(run.evictions) is moved
    assert (starts(run)["big"] == 7000) is moved


def test_what_the_clock_alone_allows_happens_without_an_event() -> None:
    run = simulate([*small(), job("big", 10, 100, gpus=8)], cluster(4, 8), DEFRAGMENT)
    begun = starts(run)["big"]
    assert begun is not None
    assert 60 <= begun <= 60 + LIVE_RECHECK


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (config(), 0.0),
        (config("enqueue, allocate, preempt"), 0.0),
        (config("enqueue, allocate", "{name: eviction-guard}"), 0.0),
        (config("enqueue, allocate, preempt", "{name: eviction-guard}"), LIVE_RECHECK),
        (config("enqueue, allocate", "{name: sla}"), LIVE_RECHECK),
        (config("enqueue, allocate, shuffle", "{name: rescheduling}"), LIVE_RECHECK),
        (DEFRAGMENT, LIVE_RECHECK),
    ],
)
def test_quiet_cycles_come_only_where_the_clock_decides(text: str, seconds: float) -> None:
    assert recheck_seconds(load_config(text)) == seconds


def test_a_job_that_never_starts_does_not_keep_a_simulation_going() -> None:
    run = simulate([job("never", gpus=64)], cluster(1, 8), config("enqueue, allocate", "{name: sla}"))
    assert starts(run) == {"never": None}


NODE: dict[str, Any] = {"name": "n", "cpu": 8, "memory": "8Gi"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"queues": [{"name": "q", "annotations": {"unisono.io/elastic": "true"}}]},
            r"queues\[0\].*unisono.io/elastic",
        ),
        ({"queues": [{"name": "q", "affinity": {"nodeGroup": {}}}]}, r"queues\[0\]: there is no field spec.affinity"),
        ({"nodes": [{**NODE, "annotations": {"unisono.io/usage-cpu": "5"}}]}, r"nodes\[0\].*unisono.io/usage-cpu"),
        (
            {"nodes": [{**NODE, "taints": [{"key": "a", "colour": "red"}]}]},
            r"nodes\[0\]: there is no field spec.taints",
        ),
    ],
)
def test_what_a_cluster_says_in_vain_is_refused_by_its_name(value: dict[str, Any], message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        build({"nodes": [NODE], **value}, "c.yaml")


def test_annotations_and_taints_of_a_cluster_are_those_of_its_objects() -> None:
    notes = {"unisono.io/user-limits": "jobs=2", "example.com/owner": "ada"}
    prices = {"unisono.io/prices": "cpu=1"}
    found = build(
        {
            "nodes": [{**NODE, "annotations": prices, "taints": [{"key": "a", "effect": "NoSchedule"}]}],
            "queues": [{"name": "q", "annotations": notes}],
        }
    )
    assert found.queues[0].metadata.annotations == notes
    assert found.nodes[0].metadata.annotations == prices
    assert [one.key for one in found.nodes[0].spec.taints or ()] == ["a"]


def test_an_annotation_of_a_job_that_acts_is_taken_and_any_other_of_ours_is_refused() -> None:
    assert not check(job("j", annotations={"volcano.sh/cooldown-time": "5m", "example.com/team": "a"}))
    assert "unisono.io/elastic" in check(job("j", annotations={"unisono.io/elastic": "true"}))
    assert "unisono.io/user" in check(job("j", annotations={"unisono.io/user": "ada"}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind=fast, kind=slow@0.5", ""),
        ("kind=fast, kind=slow*2", "annotations: unisono.io/one-of: pods of a simulation take the same amounts"),
        ("fast", "annotations: unisono.io/one-of: 'fast' is no label of nodes"),
    ],
)
def test_kinds_of_nodes_that_a_job_names(text: str, said: str) -> None:
    found = check(Job(name="j", submit=0.0, run_seconds=60.0, roles=(Role(),), annotations={"unisono.io/one-of": text}))
    assert found.startswith(said) and bool(found) is bool(said)


@pytest.mark.parametrize(
    ("word", "text", "said"),
    [
        ("unisono.io/spread", "@tier-1:min=2", ""),
        ("unisono.io/near", "@tier-1", ""),
        ("unisono.io/near", "app=a@tier-1", "annotations: unisono.io/near: pods of a simulation have no labels"),
        ("unisono.io/apart", "@tier-1:by=a", "annotations: unisono.io/apart: pods of a simulation have no labels"),
        ("unisono.io/near", "app=a", "annotations: annotation unisono.io/near: 'app=a' names no domain"),
    ],
)
def test_where_a_job_stands(word: str, text: str, said: str) -> None:
    found = check(Job(name="j", submit=0.0, run_seconds=60.0, roles=(Role(),), annotations={word: text}))
    assert found.startswith(said) and bool(found) is bool(said)
