"""lightkube: generic resources for jobs, models for core kinds, apply, wait and watch."""

from __future__ import annotations

import sys

from job import job
from lightkube import ApiError, Client
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod
from lightkube.types import PatchType

Job = create_namespaced_resource("batch.volcano.sh", "v1alpha1", "Job", "jobs")


def main(namespace: str) -> None:
    client = Client(field_manager="lightkube-program")
    client.create(Namespace(metadata=ObjectMeta(name=namespace)))
    client.create(Job(job("light", team="d")), namespace=namespace)
    client.patch(
        Job, "light", {"metadata": {"annotations": {"note": "x"}}}, namespace=namespace, patch_type=PatchType.MERGE
    )
    for _, found in client.watch(Job, namespace=namespace, labels={"team": "d"}):
        if (found.get("status") or {}).get("state", {}).get("phase") == "Completed":
            break
    assert client.get(Job, "light", namespace=namespace).metadata.annotations == {"note": "x"}
    pods = list(client.list(Pod, namespace=namespace, fields={"status.phase": "Succeeded"}))
    assert len(pods) == 2
    kept = client.apply(ConfigMap(metadata=ObjectMeta(name="c", namespace=namespace), data={"a": "b"}))
    assert kept.metadata.managedFields[0].operation == "Apply"
    assert [one.metadata.name for one in client.list(Job, namespace=namespace, labels={"team": ("d", "e")})] == [
        "light"
    ]
    client.delete(Job, "light", namespace=namespace)
    try:
        while True:
            client.get(Job, "light", namespace=namespace)
    except ApiError as error:
        assert error.status.reason == "NotFound"
    client.delete(Namespace, namespace)
    print("done")


main(sys.argv[1])
