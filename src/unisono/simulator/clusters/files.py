"""Clusters by what their files look like; tables are openb's node lists, and maps of a network's switches."""

from __future__ import annotations

from pathlib import Path

from unisono.api.yaml import expand_lists, load_all
from unisono.simulator.clusters import kubernetes, short
from unisono.simulator.clusters.model import MOST_NODES, Cluster, ClusterError, make_node, tree_of
from unisono.simulator.files import open_text, rows

OPENB_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
SWITCH_COLUMNS = ("ip", "DSW", "PSW", "ASW")


def load_cluster(path: Path) -> Cluster:
    """Read a short YAML, Kubernetes objects as YAML or JSON, or a table of nodes or switches (``.csv``, ``.csv.gz``).

    Raises:
        InputError, ConfigError: the file breaks a rule; the message names the place.

    """
    if path.name.removesuffix(".gz").endswith(".csv"):
        return _table(path)
    with open_text(path) as lines:
        text = "".join(lines)
    documents = load_all(text, str(path))
    if any(isinstance(document.value, dict) and "kind" in document.value for document in documents):
        listed = expand_lists(documents)
        return kubernetes.build((document.value, f"{path}:{document.line}") for document in listed)
    return short.parse(text, str(path))


def _table(path: Path) -> Cluster:
    with open_text(path) as lines:
        header = {name.strip() for name in next(lines, "").split(",")}
    if header.issuperset(OPENB_COLUMNS):
        return read_openb(path)
    if header.issuperset(SWITCH_COLUMNS):
        return read_switches(path)
    known = " or ".join(", ".join(columns) for columns in (OPENB_COLUMNS, SWITCH_COLUMNS))
    raise ClusterError(f"{path}:1: the columns are none of a list of nodes: {known}")


def read_openb(path: Path) -> Cluster:
    """Nodes of an openb list: sn, cpu_milli, memory_mib, gpu, model.

    Raises:
        InputError: names line and column.
        ClusterError: two nodes have one name, or there are too many.

    """
    nodes = [
        make_node(
            row.text("sn"),
            cpu=f"{row.whole('cpu_milli')}m",
            memory=f"{row.whole('memory_mib')}Mi",
            gpus=row.whole("gpu", 0),
            model=row.text("model", ""),
        )
        for row in rows(path, OPENB_COLUMNS)
    ]
    return _checked(Cluster(tuple(nodes)), path)


def read_switches(path: Path, *, gpus: int = 8, cpu: str = "96", memory: str = "1Ti") -> Cluster:
    """Hosts of a Clos network, each with the same GPUs: ip, and its core, aggregation and top-of-rack switches.

    Names of top-of-rack switches repeat below other aggregation switches, so a leaf is known by both.
    """
    nodes, paths = [], {}
    for row in rows(path, SWITCH_COLUMNS):
        name = row.text("ip")
        nodes.append(make_node(name, cpu=cpu, memory=memory, gpus=gpus))
        core, middle, leaf = row.text("DSW"), row.text("PSW"), row.text("ASW")
        paths[name] = (f"{core}-{middle}-{leaf}".lower(), f"{core}-{middle}".lower(), core.lower())
    return _checked(Cluster(tuple(nodes), hyper_nodes=tree_of(paths), paths=paths), path)


def _checked(cluster: Cluster, path: Path) -> Cluster:
    names = {node.metadata.name for node in cluster.nodes}
    if len(names) < len(cluster.nodes):
        raise ClusterError(f"{path}: two rows name the same node")
    if not names or len(names) > MOST_NODES:
        raise ClusterError(f"{path}: {len(names)} nodes; a cluster has 1 to {MOST_NODES}")
    return cluster
