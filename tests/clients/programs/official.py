"""The official client: typed calls for core kinds, custom objects for jobs, watches, patches and errors."""

from __future__ import annotations

import sys

from job import job
from kubernetes import client, config, watch

GROUP = ("batch.volcano.sh", "v1alpha1")


def main(namespace: str) -> None:
    config.load_kube_config()
    core, custom = client.CoreV1Api(), client.CustomObjectsApi()
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=namespace)))
    place = (*GROUP, namespace, "jobs")
    made = custom.create_namespaced_custom_object(*place, job("typed", team="a"))
    patched = custom.patch_namespaced_custom_object(*place, "typed", {"metadata": {"labels": {"stage": "one"}}})
    assert patched["metadata"]["labels"] == {"team": "a", "stage": "one"}
    version = made["metadata"]["resourceVersion"]
    phases = []
    watcher = watch.Watch()
    for event in watcher.stream(
        custom.list_namespaced_custom_object, *place, resource_version=version, timeout_seconds=600
    ):
        phases.append(event["object"].get("status", {}).get("state", {}).get("phase"))
        if phases[-1] == "Completed":
            watcher.stop()
    assert phases[-1] == "Completed", phases
    chosen = custom.list_namespaced_custom_object(*place, label_selector="team=a,stage in (one)")["items"]
    assert [one["metadata"]["name"] for one in chosen] == ["typed"]
    pods = core.list_namespaced_pod(namespace, field_selector="status.phase=Succeeded").items
    assert {pod.spec.node_name for pod in pods} <= {"node-0", "node-1"}, pods
    assert len(pods) == 2
    assert all(pod.status.container_statuses[0].state.terminated.exit_code == 0 for pod in pods)
    core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata={"name": "c"}, data={"a": "b"}))
    core.patch_namespaced_config_map("c", namespace, {"data": {"a": "c"}})
    assert core.read_namespaced_config_map("c", namespace).data == {"a": "c"}
    try:
        core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata={"name": "c"}))
    except client.ApiException as error:
        assert (error.status, error.reason) == (409, "Conflict")
    else:
        raise AssertionError("a second create of one name must be refused")
    assert [event.reason for event in core.list_namespaced_event(namespace).items]
    # Watched from before the deletion, so that no event is missed.
    version = core.list_namespaced_pod(namespace).metadata.resource_version
    custom.delete_namespaced_custom_object(*place, "typed", propagation_policy="Foreground")
    left = {pod.metadata.name for pod in pods}
    watcher = watch.Watch()
    for event in watcher.stream(core.list_namespaced_pod, namespace, resource_version=version, timeout_seconds=600):
        if event["type"] == "DELETED":
            left.discard(event["object"].metadata.name)
        if not left:
            watcher.stop()
    assert not core.list_namespaced_pod(namespace).items
    core.delete_namespace(namespace)
    print("phases", *dict.fromkeys(filter(None, phases)))


main(sys.argv[1])
