"""What every ``kube.Client`` does, whatever is behind it."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import aclosing

import msgspec
import pytest

from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.core import ConfigMap, Container, Pod, PodSpec, PodTemplateSpec
from unisono.api.groups.batch import Job, JobSpec, TaskSpec
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, Queue, QueueSpec
from unisono.api.kinds import CONFIG_MAPS, JOBS, NAMESPACES, POD_GROUPS, PODS, QUEUES
from unisono.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound

SECONDS = 300
# The controller of a cluster takes ending namespaces one after the other, and every test before left one.
NAMESPACE_SECONDS = 600


@pytest.fixture(autouse=True)
async def in_time(implementation):
    """Counted from when the server is there: other runs may have it before."""
    async with asyncio.timeout(900):
        yield


def settings(name, namespace, data=None, **meta):
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, **meta), data=data)


def pod(name, namespace, **meta):
    container = Container(name="main", image="busybox:1")
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, **meta), spec=PodSpec(containers=[container]))


def job(name, namespace, *, min_available=1, queue=None):
    template = PodTemplateSpec(spec=PodSpec(containers=[Container(name="main", image="busybox:1")]))
    task = TaskSpec(name="work", replicas=2, template=template)
    meta = ObjectMeta(name=name, namespace=namespace)
    return Job(metadata=meta, spec=JobSpec(min_available=min_available, queue=queue, tasks=[task]))


def own(name):
    """Clusters put a ConfigMap of their own into every namespace."""
    return name != "kube-root-ca.crt"


def names(listing):
    return [one.metadata.name for one in listing.items if own(one.metadata.name)]


async def events(stream, count):
    """The next events that are no bookmarks."""
    found = []
    async with asyncio.timeout(SECONDS), aclosing(stream):
        async for event in stream:
            if event.type != "BOOKMARK" and own(event.object.metadata.name):
                found.append(event)
            if len(found) == count:
                break
    return found


def told(found):
    return [(event.type, event.object.metadata.name) for event in found]


async def test_what_is_created_can_be_read(client, namespace):
    given = settings("a", namespace, {"k": "v"}, labels={"l": "1"}, annotations={"a": "2"})
    before = msgspec.json.encode(given)
    made = await client.create(CONFIG_MAPS, given)
    assert msgspec.json.encode(given) == before, "the caller's object is left alone"
    assert (made.data, made.metadata.labels, made.metadata.annotations) == ({"k": "v"}, {"l": "1"}, {"a": "2"})
    assert made.metadata.uid
    assert made.metadata.creation_timestamp
    assert int(made.metadata.resource_version) > 0
    assert await client.get(CONFIG_MAPS, "a", namespace) == made


async def test_answers_are_the_callers_own(client, namespace):
    made = await client.create(CONFIG_MAPS, settings("a", namespace, {"k": "v"}))
    made.data["k"] = "changed"
    (await client.get(CONFIG_MAPS, "a", namespace)).data["k"] = "changed"
    assert (await client.get(CONFIG_MAPS, "a", namespace)).data == {"k": "v"}


async def test_names_are_generated(client, namespace):
    made = [await client.create(CONFIG_MAPS, settings("", namespace, generate_name="x-")) for _ in range(3)]
    names = {one.metadata.name for one in made}
    assert len(names) == 3
    assert all(name.startswith("x-") and len(name) == 7 for name in names)


async def test_a_taken_name(client, namespace):
    await client.create(CONFIG_MAPS, settings("a", namespace))
    with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
        await client.create(CONFIG_MAPS, settings("a", namespace))


async def test_dry_run_stores_nothing(client, namespace):
    made = await client.create(CONFIG_MAPS, settings("a", namespace, {"k": "v"}), dry_run=True)
    assert made.data == {"k": "v"}
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "a", namespace)


@pytest.mark.parametrize("operation", ["get", "patch", "delete", "bind"])
async def test_what_is_missing(client, namespace, operation):
    attempts = {
        "get": lambda: client.get(PODS, "nobody", namespace),
        "patch": lambda: client.patch(PODS, "nobody", {"metadata": {}}, namespace=namespace),
        "delete": lambda: client.delete(PODS, "nobody", namespace),
        "bind": lambda: client.bind(namespace, "nobody", "n1"),
    }
    with pytest.raises(NotFound, match='pods "nobody" not found') as caught:
        await attempts[operation]()
    assert (caught.value.code, caught.value.reason) == (404, "NotFound")


async def test_lists_are_sorted_and_scoped(client, namespace):
    for name in ("b", "c", "a"):
        await client.create(CONFIG_MAPS, settings(name, namespace, labels={"n": name, "all": "yes"}))
    listing = await client.list(CONFIG_MAPS, namespace)
    assert names(listing) == ["a", "b", "c"]
    assert int(listing.resource_version) >= max(int(one.metadata.resource_version) for one in listing.items)
    assert (await client.list(CONFIG_MAPS, "contract-nowhere")).items == []
    everywhere = await client.list(CONFIG_MAPS, label_selector="all=yes")
    assert {one.metadata.name for one in everywhere.items if one.metadata.namespace == namespace} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("labels", "fields", "expected"),
    [
        ("n=a", "", ["a"]),
        ("n!=a", "", ["b", "c"]),
        ("n in (a,b)", "", ["a", "b"]),
        ("n notin (a,b)", "", ["c"]),
        ("n,all", "", ["a", "b", "c"]),
        ("!all", "", []),
        ("", "metadata.name=b", ["b"]),
        ("", "metadata.name!=b", ["a", "c"]),
        ("n=a", "metadata.name=b", []),
    ],
)
async def test_selectors(client, namespace, labels, fields, expected):
    for name in ("a", "b", "c"):
        await client.create(CONFIG_MAPS, settings(name, namespace, labels={"n": name, "all": "yes"}))
    listing = await client.list(CONFIG_MAPS, namespace, label_selector=labels, field_selector=fields)
    assert names(listing) == expected


async def test_pods_by_node(client, namespace):
    for name in ("p", "q"):
        await client.create(PODS, pod(name, namespace))
    await client.bind(namespace, "p", "n1")
    for selector, expected in (("spec.nodeName=n1", ["p"]), ("spec.nodeName!=n1", ["q"]), ("spec.nodeName=", ["q"])):
        listing = await client.list(PODS, namespace, field_selector=selector)
        assert [one.metadata.name for one in listing.items] == expected


async def test_merge_patches(client, namespace):
    made = await client.create(CONFIG_MAPS, settings("a", namespace, {"k": "v", "old": "x"}))
    change = {"data": {"new": "y", "old": None}, "metadata": {"labels": {"l": "1"}}}
    patched = await client.patch(CONFIG_MAPS, "a", change, namespace=namespace)
    assert patched.data == {"k": "v", "new": "y"}
    assert patched.metadata.labels == {"l": "1"}
    assert patched.metadata.uid == made.metadata.uid
    assert int(patched.metadata.resource_version) > int(made.metadata.resource_version)


async def test_a_patch_for_one_uid_is_not_for_its_successor(client, namespace):
    made = await client.create(CONFIG_MAPS, settings("a", namespace, {"k": "v"}))
    change = {"metadata": {"uid": made.metadata.uid}, "data": {"k": "w"}}
    assert (await client.patch(CONFIG_MAPS, "a", change, namespace=namespace)).data == {"k": "w"}
    await client.delete(CONFIG_MAPS, "a", namespace)
    await client.create(CONFIG_MAPS, settings("a", namespace, {"k": "new"}))
    # Servers say that the field is immutable; code that handles conflicts handles this one too.
    with pytest.raises(Conflict) as caught:
        await client.patch(CONFIG_MAPS, "a", change, namespace=namespace)
    assert isinstance(caught.value, Invalid)
    assert (await client.get(CONFIG_MAPS, "a", namespace)).data == {"k": "new"}


async def test_json_patches(client, namespace):
    await client.create(CONFIG_MAPS, settings("a", namespace, {"k": "v"}))
    change = [{"op": "test", "path": "/data/k", "value": "v"}, {"op": "replace", "path": "/data/k", "value": "w"}]
    patched = await client.patch(CONFIG_MAPS, "a", change, namespace=namespace, patch_type="json")
    assert patched.data == {"k": "w"}
    with pytest.raises(ApiError):
        await client.patch(CONFIG_MAPS, "a", change, namespace=namespace, patch_type="json")
    assert (await client.get(CONFIG_MAPS, "a", namespace)).data == {"k": "w"}


async def test_a_patch_that_changes_nothing_keeps_the_version(client, namespace):
    made = await client.create(CONFIG_MAPS, settings("a", namespace, {"k": "v"}))
    patched = await client.patch(CONFIG_MAPS, "a", {"data": {"k": "v"}}, namespace=namespace)
    assert patched.metadata.resource_version == made.metadata.resource_version


async def test_compare_and_set(client, namespace):
    made = await client.create(CONFIG_MAPS, settings("a", namespace))
    version = {"metadata": {"resourceVersion": made.metadata.resource_version}}
    await client.patch(CONFIG_MAPS, "a", {**version, "data": {"n": "1"}}, namespace=namespace)
    with pytest.raises(Conflict) as caught:
        await client.patch(CONFIG_MAPS, "a", {**version, "data": {"n": "2"}}, namespace=namespace)
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")
    assert (await client.get(CONFIG_MAPS, "a", namespace)).data == {"n": "1"}


async def test_of_many_writers_of_one_version_one_wins(client, namespace):
    made = await client.create(CONFIG_MAPS, settings("a", namespace))
    version = {"resourceVersion": made.metadata.resource_version}
    changes = [{"metadata": version, "data": {"n": str(i)}} for i in range(10)]
    results = await asyncio.gather(
        *(client.patch(CONFIG_MAPS, "a", change, namespace=namespace) for change in changes),
        return_exceptions=True,
    )
    assert sum(isinstance(result, Conflict) for result in results) == 9


async def test_the_status_subresource(client, namespace):
    await client.create(JOBS, job("j", namespace))
    change = {"status": {"running": 2}, "spec": {"minAvailable": 2}}
    main = await client.patch(JOBS, "j", change, namespace=namespace)
    assert (main.status.running or 0, main.spec.min_available) == (0, 2)
    change = {"status": {"running": 2}, "spec": {"minAvailable": 1}}
    status = await client.patch(JOBS, "j", change, namespace=namespace, subresource="status")
    assert (status.status.running, status.spec.min_available) == (2, 2)


async def test_pod_groups_carry_status_in_the_main_resource(client, namespace):
    group = PodGroup(
        metadata=ObjectMeta(name="g", namespace=namespace), spec=PodGroupSpec(min_member=1, queue="default")
    )
    await client.create(POD_GROUPS, group)
    patched = await client.patch(POD_GROUPS, "g", {"status": {"phase": "Running"}}, namespace=namespace)
    assert patched.status.phase == "Running"


async def test_binding(client, namespace):
    made = await client.create(PODS, pod("p", namespace))
    with pytest.raises(Conflict):
        await client.bind(namespace, "p", "n1", uid="another")
    await client.bind(namespace, "p", "n1", uid=made.metadata.uid, annotations={"gpu": "0"})
    bound = await client.get(PODS, "p", namespace)
    assert bound.spec.node_name == "n1"
    assert bound.metadata.annotations == {"gpu": "0"}
    conditions = {one.type: one.status for one in bound.status.conditions}
    assert conditions["PodScheduled"] == "True"
    with pytest.raises(Conflict, match='pod p is already assigned to node "n1"'):
        await client.bind(namespace, "p", "n2")


async def test_evicting(client, namespace):
    made = await client.create(PODS, pod("p", namespace))
    with pytest.raises(Conflict):
        await client.evict(namespace, "p", uid="00000000-0000-4000-8000-000000000000")
    await client.evict(namespace, "p", uid=made.metadata.uid, grace_seconds=0)
    with pytest.raises(NotFound):
        await client.get(PODS, "p", namespace)
    with pytest.raises(NotFound):
        await client.evict(namespace, "p")


async def test_deleting(client, namespace):
    made = await client.create(CONFIG_MAPS, settings("a", namespace))
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, "a", namespace, uid="another")
    await client.delete(CONFIG_MAPS, "a", namespace, uid=made.metadata.uid)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "a", namespace)


async def test_finalizers_hold_an_object(client, namespace):
    await client.create(CONFIG_MAPS, settings("a", namespace, finalizers=["example.org/wait"]))
    await client.delete(CONFIG_MAPS, "a", namespace)
    assert (await client.get(CONFIG_MAPS, "a", namespace)).metadata.deletion_timestamp
    await client.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}, namespace=namespace)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "a", namespace)


async def test_bound_pods_end_gracefully(client, namespace):
    await client.create(PODS, pod("p", namespace))
    await client.bind(namespace, "p", "n1")
    await client.delete(PODS, "p", namespace, grace_seconds=7)
    marked = await client.get(PODS, "p", namespace)
    assert marked.metadata.deletion_timestamp
    assert marked.metadata.deletion_grace_period_seconds == 7
    await client.delete(PODS, "p", namespace, grace_seconds=0)
    with pytest.raises(NotFound):
        await client.get(PODS, "p", namespace)


async def test_watching(client, namespace):
    since = (await client.list(CONFIG_MAPS, namespace)).resource_version
    await client.create(CONFIG_MAPS, settings("a", namespace))
    await client.patch(CONFIG_MAPS, "a", {"data": {"k": "v"}}, namespace=namespace)
    await client.delete(CONFIG_MAPS, "a", namespace)
    found = await events(client.watch(CONFIG_MAPS, namespace, resource_version=since), 3)
    assert told(found) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    versions = [int(event.object.metadata.resource_version) for event in found]
    assert versions == sorted(versions)
    assert versions[0] > int(since)
    assert found[1].object.data == {"k": "v"}


async def test_watching_from_the_middle(client, namespace):
    await client.create(CONFIG_MAPS, settings("a", namespace))
    middle = await client.create(CONFIG_MAPS, settings("b", namespace))
    await client.create(CONFIG_MAPS, settings("c", namespace))
    stream = client.watch(CONFIG_MAPS, namespace, resource_version=middle.metadata.resource_version)
    assert told(await events(stream, 1)) == [("ADDED", "c")]


async def test_watching_what_comes(client, namespace):
    since = (await client.list(CONFIG_MAPS, namespace)).resource_version
    stream = client.watch(CONFIG_MAPS, namespace, resource_version=since)
    waiting = asyncio.ensure_future(events(stream, 2))
    await asyncio.sleep(0)
    await client.create(CONFIG_MAPS, settings("a", namespace))
    await client.create(PODS, pod("other-kind", namespace))
    await client.create(CONFIG_MAPS, settings("b", namespace))
    assert told(await waiting) == [("ADDED", "a"), ("ADDED", "b")]


async def test_watching_with_selectors(client, namespace):
    since = (await client.list(PODS, namespace)).resource_version
    for name in ("p", "q"):
        await client.create(PODS, pod(name, namespace))
    await client.bind(namespace, "p", "n1")
    await client.patch(PODS, "p", {"status": {"phase": "Running"}}, namespace=namespace, subresource="status")
    await client.delete(PODS, "p", namespace, grace_seconds=0)
    last = await client.create(PODS, pod("last", namespace))
    await client.bind(namespace, "last", "n1")
    stream = client.watch(PODS, namespace, resource_version=since, field_selector="spec.nodeName=n1")
    found = []
    async with asyncio.timeout(SECONDS), aclosing(stream):
        async for event in stream:
            if event.object.metadata.uid == last.metadata.uid:
                break
            found.append(event)
    # A server may mark a pod before it removes it; then there is one event more.
    seen = [event.type for event in found if event.type != "BOOKMARK"]
    assert (seen[:2], seen[-1]) == (["ADDED", "MODIFIED"], "DELETED")
    assert {event.object.metadata.name for event in found if event.type != "BOOKMARK"} == {"p"}


async def test_labels_that_come_and_go_while_watching(client, namespace):
    since = (await client.list(CONFIG_MAPS, namespace)).resource_version
    await client.create(CONFIG_MAPS, settings("a", namespace, labels={"x": "no"}))
    for value in ("yes", "no"):
        await client.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"x": value}}}, namespace=namespace)
    stream = client.watch(CONFIG_MAPS, namespace, resource_version=since, label_selector="x=yes")
    assert told(await events(stream, 2)) == [("ADDED", "a"), ("DELETED", "a")]


async def test_cluster_scoped_objects(client):
    name = f"contract-{secrets.token_hex(4)}"
    await client.create(QUEUES, Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(weight=3)))
    assert (await client.get(QUEUES, name)).spec.weight == 3
    await client.patch(QUEUES, name, {"status": {"state": "Open"}}, subresource="status")
    listing = await client.list(QUEUES, field_selector=f"metadata.name={name}")
    assert [one.status.state for one in listing.items] == ["Open"]
    await client.delete(QUEUES, name)
    with pytest.raises(NotFound):
        await client.get(QUEUES, name)


# --- with an API server behind it ---------------------------------------------------------------------------


@pytest.mark.usefixtures("serves")
async def test_a_watch_ends_when_its_time_is_up(client, namespace):
    since = (await client.list(CONFIG_MAPS, namespace)).resource_version
    stream = client.watch(CONFIG_MAPS, namespace, resource_version=since, timeout_seconds=1)
    async with asyncio.timeout(SECONDS):
        rest = [event async for event in stream]
    assert all(event.type == "BOOKMARK" or not own(event.object.metadata.name) for event in rest)
    assert all(int(event.object.metadata.resource_version) >= int(since) for event in rest)


@pytest.mark.usefixtures("serves")
async def test_defaults_are_set(client, namespace):
    made = await client.create(PODS, pod("p", namespace))
    assert (made.status.phase, made.spec.restart_policy) == ("Pending", "Always")
    made_job = await client.create(JOBS, job("j", namespace))
    assert (made_job.spec.queue, made_job.spec.max_retry) == ("default", 3)


@pytest.mark.usefixtures("serves")
async def test_values_that_no_schema_allows_name_the_field(client, namespace):
    wrong = job("j", namespace)
    wrong.spec.tasks[0].replicas = "many"
    with pytest.raises(ApiError) as caught:
        await client.create(JOBS, wrong)
    assert caught.value.code in (400, 422)
    assert "replicas" in caught.value.message
    assert (await client.list(JOBS, namespace)).items == []


@pytest.mark.usefixtures("admits")
async def test_bad_objects_name_the_field_and_are_not_stored(client, namespace):
    with pytest.raises(Invalid) as caught:
        await client.create(JOBS, job("j", namespace, min_available=5))
    assert caught.value.code == 422
    assert "minAvailable" in caught.value.message
    assert caught.value.details["causes"]
    with pytest.raises(ApiError, match='"nope" not found'):
        await client.create(JOBS, job("j", namespace, queue="nope"))
    assert (await client.list(JOBS, namespace)).items == []


@pytest.mark.usefixtures("serves")
async def test_a_namespace_that_does_not_exist(client):
    with pytest.raises(NotFound, match='namespaces "contract-nowhere" not found'):
        await client.create(CONFIG_MAPS, settings("a", "contract-nowhere"))


@pytest.mark.usefixtures("serves")
async def test_strategic_patches_are_for_built_in_kinds(client, namespace):
    await client.create(PODS, pod("p", namespace))
    change = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
    patched = await client.patch(PODS, "p", change, namespace=namespace, patch_type="strategic")
    assert [one.image for one in patched.spec.containers] == ["busybox:2"]
    await client.create(JOBS, job("j", namespace))
    with pytest.raises(ApiError) as caught:
        await client.patch(JOBS, "j", {"spec": {}}, namespace=namespace, patch_type="strategic")
    assert (caught.value.code, caught.value.reason) == (415, "UnsupportedMediaType")


@pytest.mark.usefixtures("serves")
@pytest.mark.parametrize("propagation", [None, "Background", "Foreground", "Orphan"])
async def test_dependents(client, namespace, propagation):
    made = await client.create(JOBS, job("j", namespace))
    reference = OwnerReference(
        api_version=made.api_version,
        kind=made.kind,
        name="j",
        uid=made.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    child = await client.create(CONFIG_MAPS, settings("child", namespace, owner_references=[reference]))
    stream = client.watch(CONFIG_MAPS, namespace, resource_version=child.metadata.resource_version)
    await client.delete(JOBS, "j", namespace, propagation=propagation)
    expected = "MODIFIED" if propagation == "Orphan" else "DELETED"
    found = await events(stream, 1)
    assert told(found) == [(expected, "child")]
    if propagation == "Orphan":
        assert not found[0].object.metadata.owner_references


@pytest.mark.usefixtures("serves")
async def test_a_namespace_takes_its_content_along(client, namespace):
    await client.create(CONFIG_MAPS, settings("a", namespace))
    version = (await client.get(NAMESPACES, namespace)).metadata.resource_version
    await client.delete(NAMESPACES, namespace)
    selector = f"metadata.name={namespace}"
    stream = client.watch(NAMESPACES, resource_version=version, field_selector=selector)
    async with asyncio.timeout(NAMESPACE_SECONDS), aclosing(stream):
        async for event in stream:
            if event.type == "DELETED":
                break
    assert (await client.list(CONFIG_MAPS, namespace)).items == []
