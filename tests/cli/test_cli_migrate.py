"""``unisono migrate from``: what comes of other schedulers' objects is accepted, and what does not is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from support.backends import OPTIONS, opened
from unisono.api.kinds import QUEUES
from unisono.api.yaml import dump_all, load_all
from unisono.cli.main import cli
from unisono.cli.migrate import kai, kueue, volcano, yunikorn
from unisono.cli.migrate.written import Written

INPUTS = Path(__file__).parent / "migrate"
CONVERT = {"kueue": kueue.convert, "kai": kai.convert, "yunikorn": yunikorn.convert}


def read(name: str) -> list[dict[str, Any]]:
    return [each.value for each in load_all((INPUTS / f"{name}.yaml").read_text())]


def migrate(*words: str) -> Result:
    return CliRunner().invoke(cli, ["migrate", "from", *words])


@pytest.mark.parametrize("name", CONVERT)
async def test_queues_that_come_of_it_are_accepted_in_their_order_without_a_warning(name: str) -> None:
    async with opened() as backend:
        for queue in CONVERT[name](read(name)).objects():
            if queue["kind"] == "Queue":
                written = await backend.service.create(QUEUES, None, queue, OPTIONS)
                assert not written.warnings


def quota(name: str, nominal: int, **limits: int) -> dict[str, Any]:
    return {"name": name, "nominalQuota": nominal, **limits}


def cluster_queue(name: str, cohort: str, *resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    flavors = [{"name": "any", "resources": list(resources)}]
    group = {"coveredResources": [each["name"] for each in resources], "flavors": flavors}
    above = {"cohortName": cohort} if cohort else {}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {**above, "resourceGroups": [group], **spec},
    }


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        pytest.param(
            cluster_queue("q", "", quota("cpu", 9)),
            {"deserved": {"cpu": "9"}, "capability": {"cpu": "9"}},
            id="alone: nothing to borrow",
        ),
        pytest.param(cluster_queue("q", "c", quota("cpu", 9)), {"deserved": {"cpu": "9"}}, id="borrows without limit"),
        pytest.param(
            cluster_queue("q", "c", quota("cpu", 9, borrowingLimit=0)),
            {"deserved": {"cpu": "9"}, "capability": {"cpu": "9"}},
            id="borrows nothing",
        ),
        pytest.param(
            cluster_queue("q", "c", quota("cpu", 9, lendingLimit=4)),
            {"deserved": {"cpu": "9"}, "guarantee": {"resource": {"cpu": "5"}}},
            id="lends a part",
        ),
        pytest.param(
            cluster_queue("q", "", quota("cpu", 1), queueingStrategy="StrictFIFO", fairSharing={"weight": "2"}),
            {"deserved": {"cpu": "1"}, "capability": {"cpu": "1"}, "dequeueStrategy": "fifo", "weight": 2},
            id="order and weight",
        ),
    ],
)
def test_quotas_of_kueue(queue: dict[str, Any], expected: dict[str, Any]) -> None:
    spec = kueue.convert([queue]).queues["q"]["spec"]
    assert {key: spec.get(key) for key in expected} == expected
    left = {"parent", "reclaimable", "dequeueStrategy"}
    assert spec.keys() - left == expected.keys() - left


def test_a_cohort_has_its_own_quotas_and_those_of_all_below() -> None:
    group = cluster_queue("x", "", quota("cpu", 5))["spec"]["resourceGroups"]
    cohorts = [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Cohort",
            "metadata": {"name": name},
            "spec": {**({"parentName": above} if above else {}), "resourceGroups": group},
        }
        for name, above in (("inner", "outer"), ("outer", ""))
    ]
    queues = [cluster_queue("a", "inner", quota("cpu", 3)), cluster_queue("b", "outer", quota("cpu", 2))]
    done = kueue.convert([*queues, *cohorts])
    deserved = {name: queue["spec"]["deserved"]["cpu"] for name, queue in done.queues.items()}
    assert deserved == {"a": "3", "b": "2", "inner": "8", "outer": "15"}
    assert [each["metadata"]["name"] for each in done.objects()] == ["outer", "inner", "a", "b"]


def test_what_queues_deserve_is_summed_up_whatever_their_order() -> None:
    done = Written()
    for name, above, cpu in (("x", "b", "4"), ("a", "root", "1"), ("b", "root", "1"), ("root", "", "2")):
        done.queue(name, parent=above, deserved={"cpu": cpu})
    deserved = {each["metadata"]["name"]: each["spec"]["deserved"]["cpu"] for each in done.objects()}
    assert deserved == {"root": "5", "b": "4", "a": "1", "x": "4"}
    assert len(done.changes) == 2


def test_cohorts_in_a_ring_end() -> None:
    ring = [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Cohort",
            "metadata": {"name": name},
            "spec": {"parentName": above},
        }
        for name, above in (("a", "b"), ("b", "a"))
    ]
    assert len(kueue.convert(ring).objects()) == 2


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("kueue", ("stopPolicy", "Topology racks", "nodegroup-name=a100", "actions:")),
        ("kai", ("weights differ", "preemptibility", "a quota of cpu without limit")),
        ("yunikorn", ("preemption.delay", "limits of ada", "maxapplications", "placement rule user", "create")),
    ],
)
def test_what_is_lost_is_told(name: str, told: tuple[str, ...]) -> None:
    done = migrate(name, "-f", str(INPUTS / f"{name}.yaml"))
    assert done.exit_code == 0, done.output
    assert all(each in done.stderr for each in told)
    as_json = json.loads(migrate(name, "-f", str(INPUTS / f"{name}.yaml"), "-o", "json").stdout)
    assert as_json["items"] == [each.value for each in load_all(done.stdout)]
    assert len(as_json["changes"]) + len(as_json["lost"]) == len(done.stderr.splitlines())


def test_jobs_keep_their_specs_and_come_to_the_queue_behind_their_local_queue() -> None:
    job = kueue.convert(read("kueue")).objects()[-1]
    template = job["spec"]["template"]
    assert template["metadata"]["annotations"] == {"scheduling.volcano.sh/queue-name": "research"}
    assert template["spec"]["priorityClassName"] == "urgent"
    assert not job["metadata"]["labels"]
    assert job["spec"]["suspend"] is False


def test_units_of_kai() -> None:
    spec = kai.convert(read("kai")).queues["team"]["spec"]
    assert spec["deserved"] == {"cpu": "4", "memory": "1G", "nvidia.com/gpu": "4"}
    assert spec["capability"] == {"cpu": "8", "nvidia.com/gpu": "8"}


def test_queues_of_one_name_at_two_places_are_told_apart() -> None:
    config = {"partitions": [{"name": "default", "queues": [{"name": "root", "queues": [
        {"name": "a", "queues": [{"name": "x"}]}, {"name": "b", "queues": [{"name": "x"}]}]}]}]}  # fmt: skip
    done = yunikorn.convert([{"kind": "ConfigMap", "data": {"queues.yaml": dump_all([config])}}])
    assert {name: queue["spec"].get("parent", "") for name, queue in done.queues.items()} == {
        "a": "",
        "a-x": "a",
        "b": "",
        "b-x": "b",
    }
    assert len(done.changes) == 2


def test_a_configuration_of_volcano_is_rewritten() -> None:
    text = "actions: enqueue, allocate\ntiers:\n- plugins:\n  - name: gang\n    enableJobOrder: true\n"
    found = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"volcano-scheduler.conf": text}}
    done = volcano.convert([found, {"kind": "Queue", "metadata": {"name": "q"}, "status": {}}])
    assert "enabledJobOrder" in done.others[0]["data"]["volcano-scheduler.conf"] or not done.changes
    assert "status" not in done.queues["q"]


def test_sums_are_exact() -> None:
    queue = cluster_queue("q", "", quota("cpu", 0))
    queue["spec"]["resourceGroups"][0]["flavors"] = [
        {"name": str(number), "resources": [{"name": "cpu", "nominalQuota": "100m"}]} for number in range(3)
    ]
    assert kueue.convert([queue]).queues["q"]["spec"]["deserved"] == {"cpu": "300m"}


def test_what_is_no_yaml_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("a: [")
    assert migrate("kueue", "-f", str(file)).exit_code != 0


SETTINGS = [
    (name, one) for name, listed in yaml.safe_load((INPUTS / "settings.yaml").read_text()).items() for one in listed
]


@pytest.mark.parametrize(("name", "given"), SETTINGS, ids=[f"{name}, {one['of']}" for name, one in SETTINGS])
def test_every_setting_of_another_scheduler_is_told_and_none_is_passed_on(name: str, given: dict[str, Any]) -> None:
    done = CONVERT[name]([given["object"]])
    assert not done.objects()
    for told, expected in ((done.changes, given["changes"]), (done.lost, given["lost"])):
        assert len(told) == len(expected), told
        for words in expected:
            assert any(words in each for each in told), (words, told)


KUEUE_SETTINGS = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
TWO = [
    cluster_queue("cards", "", quota("cpu", 9), quota("cards", 4)),
    cluster_queue("plain", "", quota("cpu", 9)),
]


@pytest.mark.parametrize(
    ("resources", "plain", "cards"),
    [
        ({}, {"cpu": "9", "cards": "0"}, {"cpu": "9", "cards": "4"}),
        ({"excludeResourcePrefixes": ["car"]}, {"cpu": "9"}, {"cpu": "9", "cards": "4"}),
        ({"quotaCheckStrategy": "IgnoreUndeclared"}, {"cpu": "9"}, {"cpu": "9", "cards": "4"}),
        (
            {"deviceClassMappings": [{"name": "cards", "deviceClassNames": ["gpu.example.com"]}]},
            {"cpu": "9", "deviceclass/gpu.example.com": "0"},
            {"cpu": "9", "deviceclass/gpu.example.com": "4"},
        ),
        (
            {"deviceClassMappings": [{"name": "cards", "deviceClassNames": ["a", "b"]}]},
            {"cpu": "9", "cards": "0"},
            {"cpu": "9", "cards": "4"},
        ),
    ],
)
def test_settings_of_quotas_count_for_the_queues(
    resources: dict[str, Any], plain: dict[str, str], cards: dict[str, str]
) -> None:
    done = kueue.convert([{**KUEUE_SETTINGS, "resources": resources}, *TWO])
    assert done.queues["plain"]["spec"]["capability"] == plain
    assert done.queues["cards"]["spec"]["capability"] == cards
