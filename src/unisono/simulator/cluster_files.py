"""Clusters from files, by what these look like: descriptions, Kubernetes objects, and the lists that come with traces.

Tables are lists of nodes (openb, Alibaba PAI, spot GPUs, Philly) and maps of a network's switches.
"""

from __future__ import annotations

from pathlib import Path

from unisono.api.yaml import expand_lists, load_all
from unisono.simulator.clusters import MOST_NODES, Cluster, ClusterError, build_from_objects, make_node, parse, tree_of
from unisono.simulator.files import open_text, rows

OPENB_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
SWITCH_COLUMNS = ("ip", "DSW", "PSW", "ASW")


def load_cluster(path: Path) -> Cluster:
    """Read a short YAML, Kubernetes objects as YAML or JSON, or a table of nodes or switches (``.csv``, ``.csv.gz``).

    Raises:
        InputError, ConfigError: the file breaks a rule; the message names the place.
    """
    if path.name.removesuffix(".gz").endswith(".csv") or path.name.startswith(_PHILLY_MACHINES):
        return _table(path)
    with open_text(path) as lines:
        text = "".join(lines)
    documents = load_all(text, str(path))
    if any(isinstance(document.value, dict) and "kind" in document.value for document in documents):
        listed = expand_lists(documents)
        return build_from_objects((document.value, f"{path}:{document.line}") for document in listed)
    return parse(text, str(path))


def _table(path: Path) -> Cluster:
    with open_text(path) as lines:
        header = {name.strip() for name in next(lines, "").split(",")}
    if path.name.startswith(_PAI_MACHINES):
        return _read_pai_machines(path)
    for columns, read_table in _TABLES.items():
        if header.issuperset(columns):
            return read_table(path)
    accepted = " or ".join(", ".join(columns) for columns in _TABLES)
    raise ClusterError(f"{path}:1: the columns are none of a list of nodes: {accepted}")


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


# Node lists that come with traces of clouds.

PAI_MACHINE_COLUMNS = ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu")
SPOT_NODE_COLUMNS = ("node_name", "gpu_model", "gpu_capacity_num", "cpu_num")
PHILLY_MACHINE_COLUMNS = ("machineId", "number of GPUs")
_PAI_MACHINES, _PHILLY_MACHINES = "pai_machine_spec", "cluster_machine_list"
_MEMORY = "1Ti"
"""Of a node whose list does not tell it."""


def _read_pai_machines(path: Path) -> Cluster:
    """Machines of Alibaba PAI (2020): cores, GB and GPUs; the file is published without its header."""
    nodes = [
        make_node(
            row.text("machine"),
            cpu=row.whole("cap_cpu"),
            memory=f"{round(row.number('cap_mem') * 1024)}Mi",
            gpus=row.whole("cap_gpu", 0),
            model=row.text("gpu_type", "") if row.whole("cap_gpu", 0) else "",
        )
        for row in rows(path, PAI_MACHINE_COLUMNS, columns=PAI_MACHINE_COLUMNS)
    ]
    return _checked(Cluster(tuple(nodes)), path)


def _read_spot_nodes(path: Path) -> Cluster:
    """Nodes of Alibaba's spot GPUs (2026); their memory is not published."""
    nodes = [
        make_node(
            f"node-{row.text('node_name')}",
            cpu=row.whole("cpu_num"),
            memory=_MEMORY,
            gpus=row.whole("gpu_capacity_num", 0),
            model=row.text("gpu_model", ""),
        )
        for row in rows(path, SPOT_NODE_COLUMNS)
    ]
    return _checked(Cluster(tuple(nodes)), path)


def _read_philly_machines(path: Path) -> Cluster:
    """Machines of Microsoft's Philly; neither their CPUs nor their memory are published."""
    nodes = [
        make_node(row.text("machineId"), cpu="96", memory=_MEMORY, gpus=row.whole("number of GPUs"))
        for row in rows(path, PHILLY_MACHINE_COLUMNS)
    ]
    return _checked(Cluster(tuple(nodes)), path)


def read_switches(path: Path, *, gpus: int = 8, cpu: str = "96", memory: str = _MEMORY) -> Cluster:
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


_TABLES = {
    OPENB_COLUMNS: read_openb,
    SWITCH_COLUMNS: read_switches,
    PAI_MACHINE_COLUMNS: _read_pai_machines,
    SPOT_NODE_COLUMNS: _read_spot_nodes,
    PHILLY_MACHINE_COLUMNS: _read_philly_machines,
}
