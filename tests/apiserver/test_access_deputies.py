"""A user gains nothing by having a controller, the garbage collector or the scheduler act in the user's place."""

from __future__ import annotations

from typing import Any

import pytest

from support.backends import (
    OPTIONS,
    WriteOptions,
    config_map,
    group_body,
    job_body,
    namespace_body,
    opened,
    owner,
    pod_body,
    queue_body,
    read,
    settle,
    value,
)
from unisono.api.keys import MASTERS
from unisono.api.kind_families import APPLICATIONS
from unisono.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    COMMANDS,
    CONFIG_MAPS,
    JOBS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    QUEUES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    ROLES,
)
from unisono.apiserver.access.user import AUTHENTICATED
from unisono.apiserver.backend import Backend
from unisono.apiserver.types import DeleteOptions
from unisono.errors import ApiError, Invalid, NotFound

BOB = WriteOptions(user="bob", groups=("team", AUTHENTICATED))
RBAC = ROLES.api_version


async def ready(backend: Backend) -> None:
    """Namespaces ``a``, where Bob has ``edit``, and ``b``, where he has nothing; the queue ``shared``."""
    for name in ("a", "b"):
        await backend.service.create(NAMESPACES, None, namespace_body(name), OPTIONS)
    await settle(backend)
    binding = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": "bob", "namespace": "a"},
        "roleRef": {"kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    await backend.service.create(ROLE_BINDINGS, "a", binding, OPTIONS)
    await backend.service.create(QUEUES, None, queue_body("shared"), OPTIONS)


def command(action: str, kind: str, name: str, api_version: str, namespace: str = "a") -> dict[str, Any]:
    return {
        "apiVersion": COMMANDS.api_version,
        "kind": "Command",
        "metadata": {"name": "order", "namespace": namespace},
        "action": action,
        "target": {"apiVersion": api_version, "kind": kind, "name": name, "uid": ""},
    }


def close(name: str = "shared", **more: str) -> dict[str, Any]:
    return command("CloseQueue", "Queue", name, QUEUES.api_version, **more)


async def allow(backend: Backend, verbs: str, resource: str, group: str, *names: str) -> None:
    """Bob may do this at cluster scope, besides."""
    rule = {"verbs": verbs.split(), "apiGroups": [group], "resources": [resource], "resourceNames": list(names)}
    role = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "more"}, "rules": [rule]}
    binding = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "more"},
        "roleRef": {"kind": "ClusterRole", "name": "more"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    await backend.service.create(CLUSTER_ROLES, None, role, OPTIONS)
    await backend.service.create(CLUSTER_ROLE_BINDINGS, None, binding, OPTIONS)


async def test_a_command_for_a_queue_takes_the_right_to_change_the_queue() -> None:
    async with opened() as backend:
        await ready(backend)
        service = backend.service
        with pytest.raises(ApiError) as refused:
            await service.create(COMMANDS, "a", close(), BOB)
        assert refused.value.code == 403
        assert refused.value.message == (
            'commands.bus.volcano.sh "order" is forbidden: User "bob" cannot update queues.scheduling.volcano.sh '
            '"shared", and a Command acts with the rights of its author'
        )
        # However the target is written: what the controller reads is what is checked.
        for version in ("scheduling.volcano.sh/v1alpha1", "scheduling.volcano.sh"):
            with pytest.raises(ApiError, match="cannot update"):
                await service.create(COMMANDS, "a", command("CloseQueue", "Queue", "shared", version), BOB)
        await allow(backend, "patch", "queues", QUEUES.group, "shared")
        await service.create(COMMANDS, "a", close(), BOB)


async def test_a_command_is_not_turned_to_another_target_later() -> None:
    async with opened() as backend:
        await ready(backend)
        await backend.service.create(JOBS, "a", job_body("mine", "a"), OPTIONS)
        await backend.service.create(COMMANDS, "a", command("AbortJob", "Job", "mine", JOBS.api_version), BOB)
        with pytest.raises(ApiError, match="cannot update"):
            turned = {"action": "CloseQueue", "target": close()["target"]}
            await backend.service.patch(COMMANDS, "a", "order", turned, "merge", BOB)


async def test_a_command_for_a_job_takes_the_right_to_change_the_job() -> None:
    async with opened() as backend:
        await ready(backend)
        await backend.service.delete(ROLE_BINDINGS, "a", "bob", DeleteOptions())
        await allow(backend, "create", "commands", COMMANDS.group)
        order = command("AbortJob", "Job", "theirs", JOBS.api_version)
        with pytest.raises(ApiError, match=r'cannot update jobs.batch.volcano.sh "a/theirs"'):
            await backend.service.create(COMMANDS, "a", order, BOB)


@pytest.mark.parametrize("options", [OPTIONS, WriteOptions(user="admin", groups=(MASTERS,))])
async def test_administrators_and_the_server_itself_command_everything(options: WriteOptions) -> None:
    async with opened() as backend:
        await ready(backend)
        await backend.service.create(COMMANDS, "a", close(), options)


async def test_a_dependent_elsewhere_does_not_hold_its_owner_back() -> None:
    """A finalizer on a dependent in the user's namespace kept another namespace's job in deletion for ever."""
    async with opened() as backend:
        await ready(backend)
        job = value((await backend.service.create(JOBS, "b", job_body("theirs", "b"), OPTIONS)).object)
        held = config_map("hook", namespace="a", ownerReferences=[owner(job, blocks=True)], finalizers=["a.com/hold"])
        await backend.service.create(CONFIG_MAPS, "a", held, BOB)
        await backend.service.delete(JOBS, "b", "theirs", DeleteOptions(propagation_policy="Foreground"))
        await settle(backend)
        with pytest.raises(NotFound):
            await read(backend.service, JOBS, "b", "theirs")


async def test_blocking_the_deletion_of_a_cluster_scoped_owner_takes_a_right_on_it() -> None:
    async with opened() as backend:
        await ready(backend)
        queue = await read(backend.service, QUEUES, None, "shared")
        blocking = config_map("hook", namespace="a", ownerReferences=[owner(queue, blocks=True)])
        with pytest.raises(ApiError, match="cannot set blockOwnerDeletion in this ownerReference"):
            await backend.service.create(CONFIG_MAPS, "a", blocking, BOB)
        plain = config_map("hook", namespace="a", ownerReferences=[owner(queue)])
        await backend.service.create(CONFIG_MAPS, "a", plain, BOB)
        with pytest.raises(ApiError, match="cannot set blockOwnerDeletion"):
            change = {"metadata": {"ownerReferences": [owner(queue, blocks=True)]}}
            await backend.service.patch(CONFIG_MAPS, "a", "hook", change, "merge", BOB)
        await allow(backend, "update", "queues/finalizers", QUEUES.group)
        await backend.service.patch(CONFIG_MAPS, "a", "hook", change, "merge", BOB)


async def test_owners_in_the_own_namespace_may_be_blocked_as_in_kubernetes() -> None:
    async with opened() as backend:
        await ready(backend)
        job = value((await backend.service.create(JOBS, "a", job_body("mine", "a"), BOB)).object)
        await backend.service.create(
            CONFIG_MAPS, "a", config_map("c", namespace="a", ownerReferences=[owner(job, blocks=True)]), BOB
        )


SYSTEM = {"priorityClassName": "system-node-critical"}
CRITICAL = [
    (PODS, lambda: {**pod_body("p", "a"), "spec": {**pod_body("p", "a")["spec"], **SYSTEM}}),
    (POD_GROUPS, lambda: group_body("p", "a", **SYSTEM)),
    (JOBS, lambda: job_body("p", "a", **SYSTEM)),
]


@pytest.mark.parametrize(("kind", "body"), CRITICAL, ids=["pod", "pod group", "job"])
async def test_the_systems_priority_classes_take_a_quota_that_only_administrators_write(kind: Any, body: Any) -> None:
    async with opened() as backend:
        await ready(backend)
        service = backend.service
        # Controllers make pods and pod groups for users: the namespace counts, not who writes.
        for options in (BOB, WriteOptions(user="controllers", groups=(MASTERS,))):
            if kind is POD_GROUPS and options is BOB:
                continue
            with pytest.raises(ApiError) as refused:
                await service.create(kind, "a", body(), options)
            assert refused.value.code == 403
            assert "insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]" in str(
                refused.value
            )
        scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "critical", "namespace": "a"},
            "spec": {"hard": {"pods": "3"}, "scopeSelector": {"matchExpressions": [scope]}},
        }
        await service.create(RESOURCE_QUOTAS, "a", quota, OPTIONS)
        await settle(backend)
        await service.create(kind, "a", body(), OPTIONS)
        in_system = body()
        in_system["metadata"]["namespace"] = "kube-system"
        await service.create(kind, "kube-system", in_system, OPTIONS)


def device_claim(kind: Any, *, admin: bool = True) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu"} | ({"adminAccess": True} if admin else {})
    spec: dict[str, Any] = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "c", "namespace": "a"},
        "spec": spec if kind is RESOURCE_CLAIMS else {"spec": spec},
    }


@pytest.mark.parametrize(
    ("kind", "path"),
    [(RESOURCE_CLAIMS, "spec.devices"), (RESOURCE_CLAIM_TEMPLATES, "spec.spec.devices")],
    ids=["claim", "template"],
)
async def test_devices_of_others_take_a_namespace_that_an_administrator_has_labelled(kind: Any, path: str) -> None:
    async with opened() as backend:
        await ready(backend)
        service = backend.service
        # Controllers make claims from templates for users: the namespace counts, not who writes.
        for options in (BOB, OPTIONS):
            with pytest.raises(Invalid) as refused:
                await service.create(kind, "a", device_claim(kind), options)
            assert refused.value.message.endswith(
                f"{path}.requests[0].exactly.adminAccess: Forbidden: admin access to devices requires the "
                "`resource.kubernetes.io/admin-access: true` label on the containing namespace"
            )
        label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        await service.create(kind, "a", device_claim(kind, admin=False), BOB)
        await service.delete(kind, "a", "c", DeleteOptions())
        await service.patch(NAMESPACES, None, "a", label, "merge", OPTIONS)
        await settle(backend)
        await service.create(kind, "a", device_claim(kind), BOB)


def _apart(**term: Any) -> dict[str, Any]:
    wanted = {"labelSelector": {}, "topologyKey": "kubernetes.io/os", **term}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [wanted]}}}


def _pod_apart(**term: Any) -> dict[str, Any]:
    body = pod_body("p", "a")
    return {**body, "spec": {**body["spec"], **_apart(**term)}}


def _job_apart(**term: Any) -> dict[str, Any]:
    body = job_body("p", "a")
    spec = body["spec"]["tasks"][0]["template"]["spec"]
    body["spec"]["tasks"][0]["template"]["spec"] = {**spec, **_apart(**term)}
    return body


@pytest.mark.parametrize("term", [{"namespaceSelector": {}}, {"namespaces": ["b"]}], ids=["selector", "names"])
@pytest.mark.parametrize(("kind", "body"), [(PODS, _pod_apart), (JOBS, _job_apart)], ids=["pod", "job"])
async def test_keeping_the_pods_of_other_namespaces_away_takes_a_quota(kind: Any, body: Any, term: Any) -> None:
    async with opened() as backend:
        await ready(backend)
        service = backend.service
        # Controllers make pods for users: the namespace counts, not who writes.
        for options in (BOB, WriteOptions(user="controllers", groups=(MASTERS,))):
            with pytest.raises(ApiError, match=r"match these scopes: \[\{CrossNamespacePodAffinity Exists\}\]"):
                await service.create(kind, "a", body(**term), options)
        scope = {"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "apart", "namespace": "a"},
            "spec": {"hard": {"pods": "3"}, "scopeSelector": {"matchExpressions": [scope]}},
        }
        await service.create(RESOURCE_QUOTAS, "a", quota, OPTIONS)
        await settle(backend)
        await service.create(kind, "a", body(**term), BOB)


@pytest.mark.parametrize("term", [{}, {"namespaces": ["a"]}], ids=["own", "own by name"])
async def test_keeping_the_own_namespaces_pods_away_takes_no_quota(term: Any) -> None:
    async with opened() as backend:
        await ready(backend)
        await backend.service.create(PODS, "a", _pod_apart(**term), BOB)


@pytest.mark.parametrize(
    ("key", "operator", "let"),
    [
        ("jobset.sigs.k8s.io/job-key", "Exists", True),
        ("jobset.sigs.k8s.io/job-key", "NotIn", False),
        ("jobset.sigs.k8s.io/jobset-name", "DoesNotExist", False),
    ],
)
async def test_a_job_set_keeps_pods_of_other_job_sets_out_of_its_domains(key: str, operator: str, let: bool) -> None:
    """As the JobSet controller writes it; a term that holds for pods without the mark is about all pods."""
    wanted = {"key": key, "operator": operator, **({"values": ["mine"]} if operator == "NotIn" else {})}
    term = {"namespaceSelector": {}, "labelSelector": {"matchExpressions": [wanted]}}
    async with opened() as backend:
        await ready(backend)
        if let:
            await backend.service.create(PODS, "a", _pod_apart(**term), BOB)
            return
        with pytest.raises(ApiError, match="CrossNamespacePodAffinity"):
            await backend.service.create(PODS, "a", _pod_apart(**term), BOB)


async def test_an_application_takes_the_right_to_read_the_kubeconfigs_of_its_namespace() -> None:
    """It is brought to clusters with them; a role for Applications alone must not be one for all of a member."""
    async with opened() as backend:
        await ready(backend)
        service = backend.service
        rule = {"verbs": ["*"], "apiGroups": [APPLICATIONS.group], "resources": [APPLICATIONS.plural]}
        role = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "apps"}, "rules": [rule]}
        await service.create(CLUSTER_ROLES, None, role, OPTIONS)
        for namespace in ("a", "b"):
            binding = {
                "apiVersion": RBAC,
                "kind": "RoleBinding",
                "metadata": {"name": "apps", "namespace": namespace},
                "roleRef": {"kind": "ClusterRole", "name": "apps"},
                "subjects": [{"kind": "User", "name": "bob"}],
            }
            await service.create(ROLE_BINDINGS, namespace, binding, OPTIONS)

        def application(weight: int) -> dict[str, Any]:
            queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "q"}}
            queue["spec"] = {"weight": weight}
            spec = {"source": {"manifests": [queue]}, "syncPolicies": [{}], "destination": {"fleet": "f"}}
            meta = {"name": "policies"}
            return {"apiVersion": APPLICATIONS.api_version, "kind": "Application", "metadata": meta, "spec": spec}

        with pytest.raises(ApiError) as refused:
            await service.create(APPLICATIONS, "b", application(1), BOB)
        assert refused.value.code == 403
        assert 'User "bob" cannot get secrets in the namespace "b", and an Application acts' in refused.value.message
        await service.create(APPLICATIONS, "a", application(1), BOB)
        # What an administrator wrote is not changed either; labels are.
        await service.create(APPLICATIONS, "b", application(1), OPTIONS)
        with pytest.raises(ApiError, match="cannot get secrets"):
            await service.patch(APPLICATIONS, "b", "policies", {"spec": application(2)["spec"]}, "merge", BOB)
        await service.patch(APPLICATIONS, "b", "policies", {"metadata": {"labels": {"a": "b"}}}, "merge", BOB)
