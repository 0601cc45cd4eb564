"""Clusters by what their files look like."""

from __future__ import annotations

from pathlib import Path

from unisono.api.yaml import expand_lists, load_all
from unisono.simulator.clusters import kubernetes, node_list, short
from unisono.simulator.clusters.model import Cluster, ClusterError
from unisono.simulator.files import open_text


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
    if header.issuperset(node_list.OPENB_COLUMNS):
        return node_list.read_openb(path)
    if header.issuperset(node_list.SWITCH_COLUMNS):
        return node_list.read_switches(path)
    known = " or ".join(", ".join(columns) for columns in (node_list.OPENB_COLUMNS, node_list.SWITCH_COLUMNS))
    raise ClusterError(f"{path}:1: the columns are none of a list of nodes: {known}")
