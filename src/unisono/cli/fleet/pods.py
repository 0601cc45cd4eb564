"""Pods of a hub's jobs, wherever they run, as a table."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from unisono.api.annotations import CLUSTER, ORIGIN_UID
from unisono.cli.connection import connect
from unisono.cli.fleet.jobs import all_jobs, job_of
from unisono.cli.options import Where
from unisono.cli.printing import columns, print_json
from unisono.kube.transport import error_of

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def show_pods(where: Where, what: str, namespace: str, output: str) -> None:
    """``unisono fleet pods``: all pods of the namespace that members run, or those of one job."""
    async with connect(where) as hub:
        if what:
            _, job = await job_of(hub, what, namespace)
            uids = {job.metadata.uid: job.metadata.name}
        else:
            uids = {job.metadata.uid: job.metadata.name for _, job in await all_jobs(hub)}
        params = {"includeObject": "Object", "labelSelector": ORIGIN_UID}
        path = f"/api/v1/namespaces/{namespace}/pods"
        status, headers, body = await hub.request("GET", path, params=params, accept=_TABLE)
    if status != 200:
        raise error_of(status, headers, body)
    for text in headers.getall("Warning", []) if hasattr(headers, "getall") else ():
        click.echo(f"warning: {text.removeprefix('299 - ').strip(chr(34))}", err=True)
    pods = [row.get("object") or {} for row in msgspec.json.decode(body).get("rows") or ()]
    found = [_row(pod, uids) for pod in pods]
    found = [row for row in found if row["job"] or not what]
    if output == "json":
        print_json(found)
        return
    rows = [tuple(row.values()) for row in found]
    headers_ = ("name", "job", "cluster", "node", "phase")
    for line in columns(headers_, rows, empty="-") if found else ("Members have no pods of these jobs.",):
        click.echo(line)


def _row(pod: dict[str, Any], uids: dict[str | None, str]) -> dict[str, str]:
    meta = pod.get("metadata") or {}
    labels = meta.get("labels") or {}
    return {
        "name": meta.get("name", ""),
        "job": uids.get(labels.get(ORIGIN_UID), ""),
        "cluster": labels.get(CLUSTER, ""),
        "node": (pod.get("spec") or {}).get("nodeName", ""),
        "phase": (pod.get("status") or {}).get("phase", ""),
    }
