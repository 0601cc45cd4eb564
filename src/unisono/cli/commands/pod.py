"""``unisono pod``: the pods of jobs and queues, as ``vcctl pod`` lists them."""

from __future__ import annotations

from typing import Any

import click

from unisono.api.keys import JOB_NAME, POD_QUEUE, QUEUE_NAME
from unisono.cli.options import Where
from unisono.cli.vcctl import cluster_options, everywhere_option, namespace_option, print_option

POD_QUEUE_KEYS = (QUEUE_NAME, POD_QUEUE)


@click.group("pod")
def command() -> None:
    """List pods by job or queue, as vcctl does."""


@command.command("list")
@click.option("-j", "--job", default="", help="Only pods of this job.")
@click.option("-q", "--queue", default="", help="Only pods of this queue.")
@everywhere_option
@print_option("text", "json", "yaml")
@namespace_option
@cluster_options
async def list_(where: Where, job: str, queue: str, all_namespaces: bool, output: str) -> None:
    """List the pods of a job, of a queue, or of all jobs."""
    from unisono.api.kinds import JOBS, PODS
    from unisono.api.selecting import DEFAULT_QUEUE
    from unisono.cli.printing import TABLE
    from unisono.cli.vcctl import connected, items, pod_lines, say_nothing_found, show
    from unisono.errors import UnisonoError
    from unisono.kube.discovery import request_json

    async with connected(where) as (client, namespace):
        scope = None if all_namespaces else namespace
        if job and queue and not all_namespaces:
            actual = (await client.get(JOBS, job, namespace)).spec.queue or DEFAULT_QUEUE
            if actual != queue:
                raise UnisonoError(f"the input vcjob {job} does not match the queue {queue}: it is in {actual}.")
        if output != "text":
            pods = await items(client, PODS, scope)
            show(output, [value for value in pods if selected(value["metadata"], job, queue)], [])
            return
        table = await request_json(client, "GET", PODS.path(scope), accept=TABLE)
        rows = [row for row in table.get("rows") or [] if selected(row["object"]["metadata"], job, queue)]
        if not rows:
            await say_nothing_found(client, queue)
            return
    show("text", [], pod_lines(table, rows, namespaces=all_namespaces))


def selected(metadata: dict[str, Any], job: str, queue: str) -> bool:
    """Whether the pod is of the job and of the queue; where neither is named, whether it is of any job."""
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if job and labels.get(JOB_NAME) != job:
        return False
    if queue:
        return queue in (labels.get(POD_QUEUE_KEYS[0]), annotations.get(POD_QUEUE_KEYS[1]))
    return JOB_NAME in labels
