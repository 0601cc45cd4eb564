"""Services of operators for disaggregated inference: started whole, scaled, and rolled out beside what runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from topology_world import TOPOLOGY, racks, spine, world

from support.build import confirm, group, pod, unadvised
from unisono.api.groups.scheduling import PodGroupSpec
from unisono.api.kinds import PODS
from unisono.cluster.state import ClusterState

RECORDED: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "recorded" / "serving_operators.yaml").read_text())
SIZES = {"prefill": 2, "decode": 4}


class Service:
    """One service on racks of nodes, each of which holds one pod."""

    def __init__(self, operator: str, sizes: dict[str, int]) -> None:
        self.shape = RECORDED[operator]
        head = group("llm", 1)
        head.spec = msgspec.convert(self.shape["podGroup"], PodGroupSpec)
        self.state: ClusterState = world(racks(sizes), spine("s", *sizes), head)
        self.where: dict[str, str] = {}

    def pods(self, role: str, replica: int, revision: str) -> list[Any]:
        """Of one replica of a role."""

        def filled(text: str) -> str:
            return text.format(role=role, replica=replica, revision=revision)

        labels = {key: filled(value) for key, value in self.shape["labels"].items()}
        task = filled(self.shape.get("taskSpec", ""))
        names = [f"{role}-{replica}-{at}-{revision}" for at in range(SIZES[role])]
        return [pod(name, "llm", role=task, labels=labels, cpu=4) for name in names]

    def add(self, *replicas: tuple[str, int], revision: str = "v1") -> None:
        for role, replica in replicas:
            for one in self.pods(role, replica, revision):
                self.state.apply("ADDED", PODS, one)

    def drop(self, role: str, replica: int, revision: str = "v1") -> None:
        for one in self.pods(role, replica, revision):
            self.state.apply("DELETED", PODS, one)
            self.where.pop(one.metadata.name, None)

    def decide(self) -> set[str]:
        """One cycle; the names of the pods that it binds."""
        decisions = unadvised(self.state, TOPOLOGY)
        assert not decisions.violations
        assert not decisions.evictions, "nothing that runs is moved"
        confirm(self.state, decisions)
        self.where |= {bind.pod: bind.node for bind in decisions.binds}
        return {bind.pod for bind in decisions.binds}

    def racks(self) -> dict[str, set[str]]:
        """Racks of each replica."""
        found: dict[str, set[str]] = {}
        for name, node in self.where.items():
            found.setdefault("-".join(name.split("-")[:2]), set()).add(node.rpartition("-")[0])
        return found


operators = pytest.mark.parametrize("operator", RECORDED)


@operators
@pytest.mark.parametrize(
    ("sizes", "starts"),
    [({"a": 4, "b": 2}, True), ({"a": 6}, True), ({"a": 3, "b": 3}, False), ({"a": 4, "b": 1, "c": 1}, False)],
    ids=["one rack each", "both in one rack", "decode fits in no rack", "prefill would be split"],
)
def test_a_service_starts_whole_or_not_at_all(operator: str, sizes: dict[str, int], starts: bool) -> None:
    service = Service(operator, sizes)
    service.add(("prefill", 0), ("decode", 0))
    assert len(service.decide()) == (6 if starts else 0)
    assert all(len(where) == 1 for where in service.racks().values())


@operators
def test_more_replicas_come_whole_and_move_nothing(operator: str) -> None:
    service = Service(operator, {"a": 4, "b": 2, "c": 4, "d": 3})
    service.add(("prefill", 0), ("decode", 0))
    service.decide()
    before = dict(service.where)
    service.add(("prefill", 1), ("decode", 1))
    service.decide()
    assert before.items() <= service.where.items()
    assert all(len(where) == 1 for where in service.racks().values())
    assert set(service.racks()) == {"prefill-0", "prefill-1", "decode-0", "decode-1"}


@operators
def test_a_rollout_replaces_one_replica_while_the_other_runs(operator: str) -> None:
    """As operators roll: the pods of one replica go, those of the new revision take their place in one rack."""
    service = Service(operator, {"a": 4, "b": 2})
    service.add(("prefill", 0), ("decode", 0))
    service.decide()
    decode = {name: node for name, node in service.where.items() if name.startswith("decode")}
    service.drop("prefill", 0)
    assert service.decide() == set()
    service.add(("prefill", 0), revision="v2")
    assert service.decide() == {"prefill-0-0-v2", "prefill-0-1-v2"}
    assert decode.items() <= service.where.items()
    assert service.racks()["prefill-0"] == {"b"}
    service.drop("decode", 0)
    service.add(("decode", 0), revision="v2")
    assert len(service.decide()) == 4
    assert service.racks() == {"prefill-0": {"b"}, "decode-0": {"a"}}


@operators
def test_scaled_down_and_up_again(operator: str) -> None:
    service = Service(operator, {"a": 4, "b": 2, "c": 2})
    service.add(("prefill", 0), ("decode", 0))
    service.decide()
    for _ in range(3):
        service.add(("prefill", 1))
        assert service.decide() == {"prefill-1-0-v1", "prefill-1-1-v1"}
        service.drop("prefill", 1)
        assert service.decide() == set()
    assert set(service.racks()) == {"prefill-0", "decode-0"}
