"""Small pods that expand to a great deal are told so, and cost the agent little."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from agent_node import manifest

from support.virtual_clock import VirtualClock
from unisono.agent.containers import probing
from unisono.agent.environment import LONGEST, MOST_BYTES, Gathered, command_line, container_environment, expand
from unisono.agent.layout import Layout
from unisono.agent.logs import LastWords
from unisono.agent.network.names import MOST_FOREIGN_LINES, MOST_OWN_LINES, peer_of, shared_lines
from unisono.agent.volumes.mounts import PodFacts, prepare_volumes
from unisono.api.base import ObjectMeta
from unisono.api.core import Pod, Service, ServiceSpec
from unisono.errors import AgentError

FACTS = PodFacts("127.64.0.1", "10.0.0.1", {})
MAP = Gathered({"m": {"x": b"y" * 1_000_000, "small": b"z"}})


def variables(env: list[dict[str, Any]], **metadata: Any) -> Mapping[str, str]:
    pod = manifest("p", ["true"], container={"env": env}, metadata=metadata)
    return container_environment(pod, pod.spec.containers[0], Gathered(), pod_ip="", host_ip="", allocatable={})


def test_variables_that_double_with_each_step_are_refused() -> None:
    doubling = [{"name": f"A{n}", "value": f"$(A{n - 1})$(A{n - 1})"} for n in range(1, 60)]
    with pytest.raises(AgentError, match="longer than 128 KiB once its references are replaced"):
        variables([{"name": "A0", "value": "x" * 1000}, *doubling])


def test_many_long_variables_are_refused() -> None:
    long = [{"name": f"A{n}", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations"}}} for n in range(1000)]
    with pytest.raises(AgentError, match="larger than 6 MiB together"):
        variables(long, annotations={"a": "x" * 100_000})


def test_arguments_that_double_are_refused_and_long_ones_are_not_looked_through_again_and_again() -> None:
    pod = manifest("p", ["true", "$(A)" * 200])
    with pytest.raises(AgentError, match="longer than 128 KiB"):
        command_line(pod.spec.containers[0], {"A": "x" * 1000})
    # Each of them was looked for to the end of the text.
    text = "$(" * (LONGEST // 2)
    assert expand(text, {}) == text


def volumes(tmp_path: Path, *given: dict[str, Any], **metadata: Any) -> dict[str, Path]:
    pod = manifest("p", ["true"], volumes=list(given), metadata=metadata)
    return prepare_volumes(pod, Layout(tmp_path).pod("u"), {}, MAP, FACTS)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(
            [{"name": "v", "configMap": {"name": "m", "items": [{"key": "x", "path": f"p{n}"} for n in range(100)]}}],
            id="a large key many times",
        ),
        pytest.param([{"name": f"v{n}", "configMap": {"name": "m"}} for n in range(100)], id="many volumes"),
        pytest.param(
            [
                {
                    "name": "v",
                    "configMap": {"name": "m", "items": [{"key": "small", "path": f"p{n}"} for n in range(9000)]},
                }
            ],
            id="many files",
        ),
        pytest.param(
            [
                {
                    "name": "v",
                    "downwardAPI": {
                        "items": [
                            {"path": f"p{n}", "fieldRef": {"fieldPath": "metadata.annotations"}} for n in range(1000)
                        ]
                    },
                }
            ],
            id="annotations many times",
        ),
    ],
)
def test_small_pods_with_large_volumes_are_refused_before_anything_is_written(
    tmp_path: Path, given: list[dict[str, Any]]
) -> None:
    with pytest.raises(AgentError, match="more than 64 MiB or 8192 files"):
        volumes(tmp_path, *given, annotations={"a": "x" * 200_000})
    assert not any(tmp_path.iterdir())


def test_as_much_as_is_allowed_is_written(tmp_path: Path) -> None:
    count = MOST_BYTES // 1_000_000
    places = volumes(
        tmp_path,
        {"name": "v", "configMap": {"name": "m", "items": [{"key": "x", "path": f"p{n}"} for n in range(count)]}},
    )
    assert len(list(places["v"].iterdir())) == count


def peers(count: int, namespace: str) -> list[Any]:
    return [
        peer_of(manifest(f"p{n}", metadata={"namespace": namespace, "labels": {"a": "b"}}), f"127.64.0.{n}")
        for n in range(count)
    ]


def services(count: int, namespace: str) -> list[Service]:
    return [
        Service(metadata=ObjectMeta(name=f"s{n}", namespace=namespace), spec=ServiceSpec(selector={"a": "b"}))
        for n in range(count)
    ]


def test_services_that_select_all_pods_fill_no_hosts_file() -> None:
    theirs, mine = peers(50, "mallory"), peers(1, "mine")
    every = [*services(1500, "mallory"), *services(1, "mine")]
    own = shared_lines("mallory", theirs + mine, every)
    foreign = shared_lines("mine", theirs + mine, every)
    assert (len(own), len(foreign)) == (MOST_OWN_LINES + 1, MOST_FOREIGN_LINES + 1)
    assert foreign[-1].split()[1] == "s0"


async def test_the_files_of_a_pod_are_out_of_reach_at_once_and_removed_beside_the_loop(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.create()
    scratch = layout.pod("u").volume("scratch")
    scratch.mkdir(parents=True)
    (scratch / "file").touch()
    LastWords(layout, VirtualClock()).keep("u")
    assert (layout.pods(), len(list(layout.trash.iterdir()))) == ([], 1)
    layout.empty_trash()
    assert not list(layout.trash.iterdir())


def test_what_a_process_writes_that_a_probe_has_left_behind_is_read_to_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    monkeypatch.setattr(os, "read", lambda *_: reads.append(1) or b"y")
    monkeypatch.setattr(os, "close", lambda _: None)

    class Loop:
        def add_reader(self, *_: object) -> None: ...

        def remove_reader(self, _: int) -> None: ...

    monkeypatch.setattr(probing.asyncio, "get_running_loop", Loop)
    assert probing._Tail(0).close()
    assert len(reads) <= 64


@pytest.mark.parametrize(
    "action",
    [
        {"tcpSocket": {"host": "a" * 64 + ".example", "port": 80}},
        {"tcpSocket": {"host": "x\0y", "port": 80}},
        {"httpGet": {"host": "127.0.0.1", "port": 70000}},
    ],
)
async def test_a_probe_of_what_cannot_be_fails_as_any_other(action: dict[str, Any]) -> None:
    pod: Pod = manifest("p", ["true"], container={"livenessProbe": action})
    container = pod.spec.containers[0]
    tried = probing.Checks(container, "127.64.0.1", None, {}, None)  # type: ignore[arg-type]
    assert container.liveness_probe is not None
    outcome = await tried.probe(container.liveness_probe, 5.0)
    assert not outcome.success
    assert outcome.message
