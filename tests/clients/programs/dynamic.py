"""The official dynamic client: kinds found by discovery, server-side apply, watch and delete."""

from __future__ import annotations

import sys

from job import job
from kubernetes import config, dynamic
from kubernetes.client import api_client
from kubernetes.dynamic.exceptions import NotFoundError


def main(namespace: str) -> None:
    found = dynamic.DynamicClient(api_client.ApiClient(configuration=config.load_kube_config()))
    namespaces = found.resources.get(api_version="v1", kind="Namespace")
    namespaces.create(body={"metadata": {"name": namespace}})
    jobs = found.resources.get(api_version="batch.volcano.sh/v1alpha1", kind="Job")
    applied = found.server_side_apply(
        jobs, body=job("dynamic", team="b"), namespace=namespace, field_manager="program", force_conflicts=True
    )
    assert applied.metadata.managedFields[0].manager == "program"
    phases = []
    for event in jobs.watch(namespace=namespace, timeout=600):
        state = (event["raw_object"].get("status") or {}).get("state") or {}
        phases.append(state.get("phase"))
        if phases[-1] == "Completed":
            break
    assert phases[-1] == "Completed", phases
    patched = jobs.patch(
        body={"metadata": {"annotations": {"note": "done"}}},
        name="dynamic",
        namespace=namespace,
        content_type="application/merge-patch+json",
    )
    assert patched.metadata.annotations.note == "done"
    assert [one.metadata.name for one in jobs.get(namespace=namespace, label_selector="team=b").items] == ["dynamic"]
    queues = found.resources.get(api_version="scheduling.volcano.sh/v1beta1", kind="Queue")
    assert "default" in [queue.metadata.name for queue in queues.get().items]
    jobs.delete(name="dynamic", namespace=namespace)
    try:
        while True:
            jobs.get(name="dynamic", namespace=namespace)
    except NotFoundError:
        namespaces.delete(name=namespace)
    print("phases", *dict.fromkeys(filter(None, phases)))


main(sys.argv[1])
