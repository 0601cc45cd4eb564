"""Clusters from tables and from Kubernetes objects."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from unisono.cluster.state import ClusterState
from unisono.errors import UnisonoError
from unisono.simulator.cluster_files import load_cluster
from unisono.simulator.world.world import fill

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"zone": "a"}},
    "spec": {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "63500m", "memory": "500Gi", "nvidia.com/gpu": "8", "pods": "110"}},
}
LEAF = {
    "apiVersion": "topology.volcano.sh/v1alpha1",
    "kind": "HyperNode",
    "metadata": {"name": "leaf"},
    "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}]},
}
TOP = {
    "apiVersion": "topology.volcano.sh/v1alpha1",
    "kind": "HyperNode",
    "metadata": {"name": "top"},
    "spec": {"tier": 2, "members": [{"type": "HyperNode", "selector": {"exactMatch": {"name": "leaf"}}}]},
}


def test_what_kubectl_prints_is_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, LEAF, TOP, other]}))
    cluster = load_cluster(file)
    assert cluster.gpus == {"n1": 8}
    assert cluster.cpu_total == 63500
    assert cluster.nodes[0].spec.taints
    assert cluster.paths == {"n1": ("leaf", "top")}


def test_licences_of_a_cluster_are_counted_as_they_were_last_known(tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    made = {"apiVersion": "quota.unisono.io/v1alpha1", "kind": "FloatingResource", "metadata": {"name": "matlab"}}
    source = {"url": "https://licences.example.com", "amountPointer": "/total", "inUsePointer": "/others"}
    status = {"amount": 7, "elsewhere": 2, "observed": "2026-01-01T00:00:00Z"}
    items = [NODE, {**made, "spec": {"source": source}, "status": status}]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    state = ClusterState()
    fill(state, load_cluster(file), [])
    snapshot = state.snapshot()
    row = snapshot.registry.find("licenses.unisono.io/matlab")
    assert row is not None
    assert snapshot.nodes.floating[row].at(1e12).most == 5000


def test_a_node_list_of_openb(tmp_path: Path) -> None:
    file = tmp_path / "nodes.csv.gz"
    text = "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\nb,96000,1024,0,\n"
    file.write_bytes(gzip.compress(text.encode()))
    cluster = load_cluster(file)
    assert cluster.gpus == {"a": 2, "b": 0}
    assert (cluster.nodes[0].metadata.labels or {})["nvidia.com/gpu.product"] == "P100"


def test_leaves_of_a_map_of_switches_are_told_apart_by_what_is_above(tmp_path: Path) -> None:
    file = tmp_path / "topo.csv"
    file.write_text("ip,DSW,PSW,ASW\na,G1,P1,S1\nb,G1,P2,S1\nc,G1,P1,S1\n")
    cluster = load_cluster(file)
    assert cluster.paths["a"] == cluster.paths["c"] == ("g1-p1-s1", "g1-p1", "g1")
    assert cluster.paths["b"][0] != cluster.paths["a"][0]
    assert {each.metadata.name: each.spec.tier for each in cluster.hyper_nodes}["g1"] == 3


@pytest.mark.parametrize(
    ("name", "text", "gpus", "model"),
    [
        ("pai_machine_spec.csv", "a,V100,96,512,8\nb,CPU,96,512,0\n", {"a": 8, "b": 0}, "V100"),
        ("p.csv", "machine,gpu_type,cap_cpu,cap_mem,cap_gpu\na,T4,96,512,2\n", {"a": 2}, "T4"),
        ("nodes.csv", "node_name,gpu_model,gpu_capacity_num,cpu_num\n3,A10,1,128\n", {"node-3": 1}, "A10"),
        ("cluster_machine_list", "machineId, number of GPUs, single GPU mem\nm31,8, 24GB\n", {"m31": 8}, None),
    ],
)
def test_node_lists_of_clouds(tmp_path: Path, name: str, text: str, gpus: dict[str, int], model: str | None) -> None:
    """Without a header, with one, and with spaces in it, as they are published."""
    (tmp_path / name).write_text(text)
    cluster = load_cluster(tmp_path / name)
    assert cluster.gpus == gpus
    assert (cluster.nodes[0].metadata.labels or {}).get("nvidia.com/gpu.product") == model


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("n.csv", "a,b\n1,2\n", "none of a list of nodes"),
        ("n.csv", "sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\na,1,1,0,\n", "two rows name the same node"),
        ("n.csv", "sn,cpu_milli,memory_mib,gpu,model\na,x,1,0,\n", "n.csv:2: cpu_milli"),
        ("n.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": [LEAF]}), "the objects have 0 nodes"),
        ("n.yaml", "nodes: 3\n", "n.yaml"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, name: str, text: str, told: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(UnisonoError) as caught:
        load_cluster(file)
    assert told in str(caught.value)
