"""Tenants: who may use which queue, whose job it is, and the queue of jobs that name none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from support.backends import (
    OPTIONS,
    WriteOptions,
    group_body,
    job_body,
    namespace_body,
    opened,
    pod_body,
    queue_body,
    value,
)
from unisono.api.annotations import (
    DEFAULT_RUN_TIME,
    EVICTABLE,
    MAX_RUN_TIME,
    QUEUE_NAMESPACES,
    QUEUE_USERS,
    QUOTAS,
    USER,
    USER_LIMITS,
    WRITABLE_DIRECTORIES,
)
from unisono.api.groups.batch import CronJob
from unisono.api.keys import GROUP_NAME, GROUP_NAME_OF_VOLCANO, MASTERS, POD_QUEUE
from unisono.api.kind import Kind
from unisono.api.kind_families import CRON_JOBS
from unisono.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    JOBS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    QUEUES,
    ROLE_BINDINGS,
)
from unisono.apiserver.access.user import AUTHENTICATED
from unisono.apiserver.backend import Backend
from unisono.controllers.cronjob.decide import VOLCANO
from unisono.errors import ApiError, Invalid

ALICE = WriteOptions(user="alice", groups=("ml", AUTHENTICATED))
BOB = WriteOptions(user="bob", groups=(AUTHENTICATED,))
MASTER = WriteOptions(user="system:controllers", groups=(MASTERS,))


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with opened() as it:
        for name in ("team-a", "team-b"):
            await it.service.create(NAMESPACES, None, namespace_body(name), OPTIONS)
        yield it


def noted(body: dict[str, Any], **annotations: str) -> dict[str, Any]:
    body["metadata"]["annotations"] = dict(annotations)
    return body


async def make(backend: Backend, kind: Kind[Any], body: dict[str, Any], options: WriteOptions = OPTIONS) -> Any:
    return value((await backend.service.create(kind, body["metadata"].get("namespace"), body, options)).object)


async def restricted(backend: Backend, name: str = "gold", parent: str = "", **annotations: str) -> None:
    body = queue_body(name)
    if parent:
        body["spec"]["parent"] = parent
    body["metadata"]["annotations"] = annotations
    await make(backend, QUEUES, body)


def job(namespace: str, queue: str = "gold", name: str = "j") -> dict[str, Any]:
    body = job_body(name)
    body["metadata"]["namespace"] = namespace
    if queue:
        body["spec"]["queue"] = queue
    else:
        body["spec"].pop("queue", None)
    return body


@pytest.mark.parametrize(
    ("allowed", "namespace", "passes"),
    [
        ("team-a", "team-a", True),
        ("team-a", "team-b", False),
        ("other, team-*", "team-b", True),
        ("", "team-a", False),
    ],
)
async def test_namespaces_that_may_use_a_queue(backend: Backend, allowed: str, namespace: str, passes: bool) -> None:
    await restricted(backend, **{QUEUE_NAMESPACES: allowed})
    if passes:
        await make(backend, JOBS, job(namespace))
        return
    with pytest.raises(ApiError, match=f"for jobs of other namespaces than {namespace}") as error:
        await make(backend, JOBS, job(namespace))
    assert error.value.code == 403


async def test_what_a_queue_says_holds_below_it(backend: Backend) -> None:
    await restricted(backend, "org", **{QUEUE_NAMESPACES: "team-a"})
    await restricted(backend, "leaf", parent="org")
    await make(backend, JOBS, job("team-a", "leaf"))
    with pytest.raises(ApiError, match="queue org, which queue leaf is below, is for jobs of other namespaces"):
        await make(backend, JOBS, job("team-b", "leaf"))


@pytest.mark.parametrize(
    ("listed", "passing"), [("alice", {"alice"}), ("group:ml", {"alice"}), ("", set()), ("alice,bob", {"alice", "bob"})]
)
async def test_users_that_may_use_a_queue(backend: Backend, listed: str, passing: set[str]) -> None:
    await restricted(backend, **{QUEUE_USERS: listed})
    for options in (ALICE, BOB):
        if options.user in passing:
            await make(backend, JOBS, job("team-a", name=options.user), options)
            continue
        with pytest.raises(ApiError, match=f'is not for user "{options.user}"'):
            await make(backend, JOBS, job("team-a", name=options.user), options)
    await make(backend, JOBS, job("team-a", name="of-a-controller"), MASTER)


async def test_the_verb_use_opens_a_queue(backend: Backend) -> None:
    await restricted(backend, **{QUEUE_USERS: ""})
    rules = [{"apiGroups": [QUEUES.group], "resources": ["queues"], "resourceNames": ["gold"], "verbs": ["use"]}]
    api = CLUSTER_ROLES.api_version
    await make(
        backend, CLUSTER_ROLES, {"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": "u"}, "rules": rules}
    )
    subject = {"kind": "User", "name": "bob", "apiGroup": CLUSTER_ROLES.group}
    role = {"kind": "ClusterRole", "name": "u", "apiGroup": CLUSTER_ROLES.group}
    binding = {"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": "u"}, "subjects": [subject]}
    await make(backend, CLUSTER_ROLE_BINDINGS, {**binding, "roleRef": role})
    await make(backend, JOBS, job("team-a", name="b"), BOB)
    with pytest.raises(ApiError, match="no role gives them the verb use"):
        await make(backend, JOBS, job("team-a", name="a"), ALICE)


async def test_pods_and_groups_are_asked_as_well(backend: Backend) -> None:
    await restricted(backend, **{QUEUE_NAMESPACES: "team-b"})
    group = group_body("g")
    group["metadata"]["namespace"], group["spec"]["queue"] = "team-a", "gold"
    with pytest.raises(ApiError, match=r"spec\.queue: queue gold is for jobs of other namespaces"):
        await make(backend, POD_GROUPS, group)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team-a", "annotations": {POD_QUEUE: "gold"}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]},
    }
    with pytest.raises(ApiError, match="queue gold is for jobs of other namespaces"):
        await make(backend, PODS, pod)


async def test_a_job_without_a_queue_goes_to_that_of_its_namespace_and_an_explicit_one_stays(backend: Backend) -> None:
    await make(backend, QUEUES, queue_body("gold"))
    note = {"metadata": {"annotations": {POD_QUEUE: "gold"}}}
    await backend.service.patch(NAMESPACES, None, "team-a", note, "merge", OPTIONS)
    assert (await make(backend, JOBS, job("team-a", "", "silent")))["spec"]["queue"] == "gold"
    explicit = await make(backend, JOBS, job("team-a", "default", "explicit"))
    assert explicit["spec"]["queue"] == "default"
    assert (await make(backend, JOBS, job("team-b", "", "other")))["spec"]["queue"] == "default"
    group = group_body("g")
    group["metadata"]["namespace"], group["spec"]["queue"] = "team-a", "default"
    owner = {"apiVersion": JOBS.api_version, "kind": "Job", "name": "explicit", "uid": explicit["metadata"]["uid"]}
    group["metadata"]["ownerReferences"] = [owner]
    assert (await make(backend, POD_GROUPS, group))["spec"]["queue"] == "default"


async def test_who_submits_a_job_is_written_down_and_nobody_can_say_otherwise(backend: Backend) -> None:
    forged = noted(job("team-a", "default"), **{USER: "bob"})
    made = await make(backend, JOBS, forged, ALICE)
    assert made["metadata"]["annotations"][USER] == "alice"
    change = {"metadata": {"annotations": {USER: "bob", "mine": "1"}}}
    written = await backend.service.patch(JOBS, "team-a", "j", change, "merge", ALICE)
    assert value(written.object)["metadata"]["annotations"] == {USER: "alice", "mine": "1"}
    handed = noted(group_body("g"), **{USER: "alice"})
    handed["metadata"]["namespace"] = "team-a"
    assert (await make(backend, POD_GROUPS, handed, MASTER))["metadata"]["annotations"][USER] == "alice"


async def test_what_jobs_are_made_from_has_its_author_too(backend: Backend) -> None:
    template = {"metadata": {"annotations": {USER: "bob"}}, "spec": job("team-a", "default")["spec"]}
    body = {
        "apiVersion": CRON_JOBS.api_version,
        "kind": CRON_JOBS.kind,
        "metadata": {"name": "c", "namespace": "team-a", "annotations": {USER: "bob"}},
        "spec": {"schedule": "* * * * *", "jobTemplate": template},
    }
    made = await make(backend, CRON_JOBS, body, ALICE)
    assert made["metadata"]["annotations"][USER] == "alice"
    started = VOLCANO.make(msgspec.convert(made, CronJob), "c-1", {})
    assert started.metadata.annotations == {USER: "alice"}


async def test_a_pod_that_has_a_node_stays_in_its_gang(backend: Backend) -> None:
    for name, node in (("waits", {}), ("runs", {"spec_nodeName": "n0"})):
        await make(backend, PODS, pod_body(name, "team-a", annotations={GROUP_NAME: "g"}, **node), ALICE)

    async def name_group(pod: str, group: str | None, author: WriteOptions, key: str = GROUP_NAME) -> str | None:
        change = {"metadata": {"annotations": {key: group, "mine": "1"}}}
        await backend.service.patch(PODS, "team-a", pod, change, "merge", author)
        notes = value(await backend.service.get(PODS, "team-a", pod))["metadata"]["annotations"]
        return notes.get(GROUP_NAME)

    for group in ("ghost", None, ""):
        with pytest.raises(ApiError, match="stays in its PodGroup g") as refused:
            await name_group("runs", group, ALICE)
        assert refused.value.code == 403
    assert await name_group("runs", "other", ALICE, GROUP_NAME_OF_VOLCANO) == "g"
    assert await name_group("runs", "other", MASTER) == "other"
    assert await name_group("waits", "other", ALICE) == "other"


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        (QUEUE_NAMESPACES, "te*m", "a \\* may only stand at the end"),
        (EVICTABLE, "often", "must be all, surplus or none"),
        (MAX_RUN_TIME, "long", "must be a duration such as 4h"),
        (DEFAULT_RUN_TIME, "1h,2h", "another part is for the same jobs"),
        (QUOTAS, "cpu=80%", "must be such as deserved.cpu=80%"),
        (QUOTAS, "deserved.cpu=101%", "at most 100%"),
        (QUOTAS, "deserved.cpu=1%,deserved.cpu=2%", "deserved.cpu is there twice"),
        (USER_LIMITS, "pods", "is no NAME=QUANTITY"),
        (USER_LIMITS, "jobs=few", "must be a whole number"),
    ],
)
async def test_annotations_that_cannot_be_read_are_refused(backend: Backend, key: str, text: str, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        await restricted(backend, **{key: text})


async def test_the_words_of_other_queues_are_told_of_to_users_and_not_to_controllers(backend: Backend) -> None:
    body = job_body("kueues", "team-a")
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gold"}
    (told,) = (await backend.service.create(JOBS, "team-a", body, ALICE)).warnings
    assert told.startswith("metadata.labels[kueue.x-k8s.io/queue-name] is Kueue's (LocalQueue), and has no effect")
    assert "scheduling.volcano.sh/queue-name" in told
    owner = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u", "controller": True}
    body = job_body("made", "team-a")
    body["metadata"] |= {"labels": {"kueue.x-k8s.io/queue-name": "gold"}, "ownerReferences": [owner]}
    assert not (await backend.service.create(JOBS, "team-a", body, MASTER)).warnings


@pytest.mark.parametrize("kind", [ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS], ids=["own", "wide"])
async def test_who_gives_rights_where_pods_write_in_folders_of_the_machine_is_told(
    backend: Backend, kind: Kind[Any]
) -> None:
    space = "team-a" if kind.namespaced else None
    subject = {"kind": "User", "name": "bob", "apiGroup": CLUSTER_ROLES.group}

    async def warnings(name: str, namespace: str | None) -> list[str]:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "subjects": [subject]}
        body["roleRef"] = {"kind": "ClusterRole", "name": "edit", "apiGroup": CLUSTER_ROLES.group}
        return list((await backend.service.create(kind, namespace, body, OPTIONS)).warnings)

    assert await warnings("before", space) == []
    note = {"metadata": {"annotations": {WRITABLE_DIRECTORIES: "/root/work"}}}
    await backend.service.patch(NAMESPACES, None, "team-a", note, "merge", OPTIONS)
    (told,) = await warnings("after", space)
    assert told.startswith("pods in namespace team-a may write in folders of this machine")
    if space:
        assert await warnings("elsewhere", "team-b") == []
