"""kr8s: objects that know how to create, patch, watch and delete themselves."""

from __future__ import annotations

import sys
import time

import kr8s
from job import job
from kr8s.objects import Namespace, Pod, new_class

KIND = "jobs.batch.volcano.sh"


def main(namespace: str) -> None:
    api = kr8s.api()
    Namespace({"metadata": {"name": namespace}}, api=api).create()
    kind = new_class(kind="Job", version="batch.volcano.sh/v1alpha1", namespaced=True, plural="jobs")
    mine = kind({**job("kr8s", team="c"), "metadata": {"name": "kr8s", "namespace": namespace}}, api=api)
    mine.create()
    mine.label({"team": "c"})
    mine.annotate({"note": "here"})
    # Plain ``jobs`` would be those of batch/v1: kr8s waits on the plural alone.
    for _, found in api.watch(KIND, namespace=namespace, field_selector="metadata.name=kr8s"):
        if found.raw.get("status", {}).get("state", {}).get("phase") == "Completed":
            break
    mine.refresh()
    assert mine.annotations["note"] == "here"
    assert mine.status.state.phase == "Completed"
    chosen = list(api.get(KIND, namespace=namespace, label_selector={"team": "c"}))
    assert [one.name for one in chosen] == ["kr8s"]
    pods = list(Pod.list(namespace=namespace, api=api))
    assert [pod.status.phase for pod in pods] == ["Succeeded", "Succeeded"]
    mine.delete()
    while mine.exists():
        time.sleep(0.05)
    Namespace.get(namespace, api=api).delete()
    print("version", api.version()["gitVersion"])


main(sys.argv[1])
