"""Manifests that users of Volcano and Kubeflow write, under kubectl: all of them are accepted."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from support.kubectl import Plane
from support.plane import MANIFESTS

pytestmark = pytest.mark.kubectl

FILES = sorted(MANIFESTS.glob("*.yaml"))
WAYS = (
    ("create", "--dry-run=server"),
    ("apply", "--server-side", "--dry-run=server"),
    ("apply",),
    ("apply", "--server-side", "--force-conflicts"),
)
# A dry run stores no queue, so that what goes into a queue of the same file waits for the real thing.
STORED_FIRST = ("06-two-queues", "09-queue-podgroup-job")
# As on every cluster, a quota on requests refuses a pod that says nothing of them; it comes last in its file.
QUOTA = "13-quota-priority-taints"


async def prepared(plane: Plane, file: Path) -> list[dict]:
    """The file's objects, on a server that has the namespaces and queues which they name."""
    objects = [one for one in yaml.safe_load_all(file.read_text()) if one]
    namespaces = {one["metadata"].get("namespace", "default") for one in objects} - {"default"}
    own = {one["metadata"]["name"] for one in objects if one["kind"] == "Queue"}
    for name in sorted(namespaces):
        # A server has volcano-system from its start.
        if (await plane.run("get", "ns", name)).code:
            await plane.ok("create", "ns", name)
    named = {queue for one in objects if (queue := one.get("spec", {}).get("queue"))}
    named |= {
        (one.get("metadata", {}).get("annotations") or {}).get("scheduling.volcano.sh/queue-name") for one in objects
    }
    await plane.ok("apply", "-f", str(MANIFESTS / "03-queues.yaml"))
    for name in sorted(filter(None, named - own - {"default"})):
        if (await plane.run("get", "queue", name)).code:
            await plane.apply(
                {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
            )
    return objects


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_a_manifest(plane: Plane, file: Path) -> None:
    objects = await prepared(plane, file)
    if file.name == "03-queues.yaml":
        await plane.ok("delete", "-f", str(file))
    for way in WAYS[2:] if file.stem in STORED_FIRST else WAYS:
        done = await plane.run(*way, "-f", str(file))
        if file.stem == QUOTA and "--dry-run=server" not in way:
            assert "must specify limits.cpu for: trainer" in done.err
            assert len(done.out.splitlines()) == len(objects) - 1
        else:
            assert done.code == 0, f"kubectl {' '.join(way)}: {done.err}"
            assert len(done.out.splitlines()) == len(objects)
    if file.stem != QUOTA:
        again = await plane.ok("apply", "-f", str(file))
        assert all(line.endswith(("unchanged", "configured")) for line in again.splitlines()), again
        assert len((await plane.ok("get", "-f", str(file), "-o", "name")).splitlines()) == len(objects)
