"""Clusters from a short YAML."""

from __future__ import annotations

import pytest

from unisono.errors import UnisonoError
from unisono.simulator.clusters import parse, with_node_order

TEXT = """
nodes:
- {name: gpu, count: 4, cpu: 96, memory: 512Gi, gpus: 8, gpuModel: A100, price: 30.5}
- {name: head, cpu: "8", memory: 32Gi}
topology:
- {name: leaf, size: 2}
- {name: spine, size: 2}
queues:
- {name: research, weight: 3, dequeueStrategy: fifo, capability: {nvidia.com/gpu: 16}}
"""


def test_nodes_topology_prices_and_queues_are_read() -> None:
    cluster = parse(TEXT, "c.yaml")
    assert [node.metadata.name for node in cluster.nodes] == ["gpu-0", "gpu-1", "gpu-2", "gpu-3", "head"]
    assert cluster.gpu_total == 32
    assert cluster.paths["gpu-3"] == ("leaf-1", "spine-0")
    assert cluster.prices["gpu-0"] == 30.5
    assert cluster.queues[0].spec.weight == 3
    assert cluster.queues[0].spec.dequeue_strategy == "fifo"
    tiers = {each.metadata.name: each.spec.tier for each in cluster.hyper_nodes}
    assert tiers["leaf-0"] == 1
    assert tiers["spine-1"] == 2


def test_another_order_of_nodes_keeps_everything_but_the_names() -> None:
    cluster, other = parse(TEXT), with_node_order(parse(TEXT), 7)
    assert sorted(other.gpus.values()) == sorted(cluster.gpus.values())
    assert sorted(other.paths.values()) == sorted(cluster.paths.values())
    assert sorted(other.prices.values()) == sorted(cluster.prices.values())
    assert other == with_node_order(parse(TEXT), 7)
    assert other != with_node_order(parse(TEXT), 8)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nodes: [{name: a, cpu: 1}]", "memory"),
        ("nodes: [{name: a, cpu: 1, memory: 1Gi, count: 0}]", "nodes[0].count: 0 is not 1 or more"),
        ("nodes: [{name: a, cpu: 1x, memory: 1Gi}]", "nodes[0]"),
        ("nodes: [{name: a, cpu: 1, memory: 1Gi, colour: red}]", "colour"),
        ("nodes: [{name: a, cpu: 1, memory: 1Gi, count: 200000}]", "200000 nodes are too many"),
        ("nodes: [{name: a, cpu: 1, memory: 1Gi}, {name: a, cpu: 1, memory: 1Gi}]", "two groups make a node named a"),
        ("nodes: [{name: a, cpu: 1, memory: 1Gi}]\ntopology: [{name: l, size: 0}]", "topology[0].size"),
        ("a: [", "c.yaml"),
        ("", "one YAML document"),
    ],
)
def test_a_bad_description_is_named_with_its_field(text: str, told: str) -> None:
    with pytest.raises(UnisonoError) as caught:
        parse(text, "c.yaml")
    assert told in str(caught.value)
