"""One cycle on objects from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.check.settings import CONFIGS
from benchmarks.check.world import START, World
from click.testing import CliRunner

from unisono.cli.main import cli
from unisono.engine.config_file.reader import load_config
from unisono.scheduler.offline import decide, read_cluster

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: q}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
---
apiVersion: example.com/v1
kind: Gadget
metadata: {name: d}
"""


def gang(name: str, size: int, cpu: str) -> str:
    documents = [
        f"""
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {{name: {name}}}
spec: {{minMember: {size}, queue: q}}
"""
    ]
    documents += [
        f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}-{number}, annotations: {{scheduling.k8s.io/group-name: {name}}}}}
spec:
  schedulerName: volcano
  containers: [{{name: c, image: i, resources: {{requests: {{cpu: "{cpu}"}}}}}}]
"""
        for number in range(size)
    ]
    return "---".join(documents)


def schedule(folder: Path, *words: str, text: str) -> dict[str, Any]:
    (folder / "cluster.yaml").write_text(text)
    done = CliRunner().invoke(cli, ["schedule", "-f", str(folder), "-o", "json", *words], catch_exceptions=False)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_gang_that_fits_would_start_and_one_that_does_not_would_wait(tmp_path: Path) -> None:
    answer = schedule(tmp_path, text=f"{CLUSTER}---{gang('small', 2, '1')}---{gang('large', 3, '3')}")
    assert answer["binds"] == {"default/small-0": "n1", "default/small-1": "n1"}
    assert answer["podGroups"]["default/large"]["phase"] == "Inqueue"
    assert answer["verdicts"]["default/large"]["cause"] == "TooLarge"
    assert answer["ignored"] == {"example.com/v1/Gadget": 1}
    assert answer["objects"]["Pod"] == 5
    assert set(answer["seconds"]) >= {"read", "snapshot", "decide", "actions/allocate", "plugins/gang/open"}


def test_the_same_question_gets_the_same_answer(tmp_path: Path) -> None:
    text = f"{CLUSTER}---{gang('a', 2, '1')}---{gang('b', 3, '2')}"
    first, second = (schedule(tmp_path, "--now", "2026-01-01T00:00:00Z", text=text) for _ in range(2))
    for answer in (first, second):
        del answer["seconds"]
    assert first == second


def test_flags_that_the_file_omits_are_off_when_asked(tmp_path: Path) -> None:
    folder = tmp_path / "objects"
    folder.mkdir()
    config = tmp_path / "scheduler.conf"
    config.write_text('actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n')
    text = f"{CLUSTER}---{gang('large', 3, '2')}"
    assert schedule(folder, "--config", str(config), text=text)["binds"] == {}
    # Without the gang plug-in's flags nothing holds the gang together.
    assert len(schedule(folder, "--config", str(config), "--no-plugin-defaults", text=text)["binds"]) == 2


def test_people_read_who_starts_and_who_waits(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(f"{CLUSTER}---{gang('small', 2, '1')}---{gang('large', 3, '3')}")
    done = CliRunner().invoke(cli, ["schedule", "-f", str(tmp_path)], catch_exceptions=False)
    assert "Would start:" in done.stdout
    assert "default/small" in done.stdout
    assert "default/large waits in queue q" in done.stdout


@pytest.mark.parametrize("words", [("--now", "yesterday")])
def test_a_wrong_time_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "x.yaml").write_text(CLUSTER)
    done = CliRunner().invoke(cli, ["schedule", "-f", str(tmp_path), *words])
    assert done.exit_code == 2
    assert "2026-11-20T12:00:00Z" in done.stderr


@pytest.mark.parametrize("seed", range(6))
def test_objects_of_a_server_are_read_alike_without_a_close_look(seed: int) -> None:
    """Also where a part has to be renamed or pruned after all."""
    objects = [*World(seed).objects()]
    objects += [
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        for name, spec in (("alias", {"guaranteed": {"cpu": "1"}}), ("more", {"weight": 1, "newer": {"a": None}}))
    ]
    config = load_config(json.dumps(CONFIGS["default"]))
    close, fast = (read_cluster(((one, "") for one in objects), checked=checked) for checked in (False, True))
    assert fast.counts == close.counts
    told = [decide(one, config, START + 1000.0) for one in (close, fast)]
    assert told[0].binds == told[1].binds
    assert told[0].verdicts == told[1].verdicts
    queues = [one.state.snapshot().queues for one in (close, fast)]
    assert queues[0]["alias"].guarantee == queues[1]["alias"].guarantee == {"cpu": 1000}
