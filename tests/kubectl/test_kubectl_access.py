"""kubectl with roles, tokens, quotas and limits: what an administrator and his users type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.kubectl import Plane

pytestmark = pytest.mark.kubectl

ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "runner", "namespace": "default"},
    "rules": [{"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": ["get", "list", "create"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "runners", "namespace": "default"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "runner"},
    "subjects": [{"kind": "User", "name": "bob"}, {"kind": "ServiceAccount", "name": "robot"}],
}
ROBOT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"}}


async def test_can_i(plane: Plane) -> None:
    await plane.apply(ROLE, BINDING)
    assert (await plane.ok("auth", "can-i", "create", "pods")).strip() == "yes"
    assert (await plane.ok("auth", "can-i", "create", "jobs.batch.volcano.sh", "--as", "bob")).strip() == "yes"
    denied = await plane.run("auth", "can-i", "delete", "jobs.batch.volcano.sh", "--as", "bob")
    assert (denied.code, denied.out.strip()) == (1, "no")
    listed = await plane.ok("auth", "can-i", "--list", "--as", "bob")
    assert "jobs.batch.volcano.sh" in listed
    assert "[get list create]" in listed
    assert "selfsubjectaccessreviews.authorization.k8s.io" in listed


async def test_whoami(plane: Plane) -> None:
    mine = await plane.ok("auth", "whoami")
    assert "unisono-admin" in mine
    assert "system:masters" in mine
    other = await plane.ok("auth", "whoami", "--as", "bob", "--as-group", "team", "-o", "json")
    info = yaml.safe_load(other)["status"]["userInfo"]
    assert (info["username"], info["groups"]) == ("bob", ["team", "system:authenticated"])


async def test_users_are_told_what_they_may_not(plane: Plane) -> None:
    await plane.apply(ROLE, BINDING)
    assert "No resources found" in (await plane.run("get", "jobs.batch.volcano.sh", "--as", "bob")).err
    assert (await plane.fails("get", "pods", "--as", "bob")).strip() == (
        'Error from server (Forbidden): pods is forbidden: User "bob" cannot list resource "pods" in API group "" '
        'in the namespace "default"'
    )
    # Who may not impersonate may not act as somebody else by a user of his own either.
    assert 'cannot list resource "nodes"' in await plane.fails("get", "nodes", "--as", "bob")


async def test_create_roles_by_command(plane: Plane) -> None:
    await plane.ok("create", "role", "reader", "--verb=get,list", "--resource=pods,pods/log")
    await plane.ok("create", "rolebinding", "readers", "--role=reader", "--user=eve")
    await plane.ok("create", "clusterrole", "urls", "--verb=get", "--non-resource-url=/metrics")
    await plane.ok("create", "clusterrolebinding", "urls", "--clusterrole=urls", "--user=eve")
    assert (await plane.ok("auth", "can-i", "get", "pods", "--subresource=log", "--as", "eve")).strip() == "yes"
    assert (await plane.ok("auth", "can-i", "get", "/metrics", "--as", "eve")).strip() == "yes"
    assert "Role/reader" in await plane.ok("get", "rolebindings", "-o", "wide")
    assert "pods/log" in await plane.ok("describe", "role", "reader")


async def test_reconcile(plane: Plane) -> None:
    text = yaml.safe_dump_all([ROLE, BINDING])
    assert "reconciled" in await plane.ok("auth", "reconcile", "-f", "-", stdin=text)
    wider = {**ROLE, "rules": [*ROLE["rules"], {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}  # type: ignore[misc]
    await plane.ok("auth", "reconcile", "-f", "-", stdin=yaml.safe_dump(wider))
    assert (await plane.ok("auth", "can-i", "get", "pods", "--as", "bob")).strip() == "yes"


async def test_a_service_account_works_with_its_token(plane: Plane, tmp_path: Path) -> None:
    await plane.apply(ROLE, BINDING, ROBOT)
    token = (await plane.ok("create", "token", "robot", "--duration=20m")).strip()
    assert token.count(".") == 2
    own = ("--server", plane.server.url, "--certificate-authority", str(plane.server.ca_path), "--token", token)
    empty = tmp_path / "kubeconfig"
    empty.write_text("{apiVersion: v1, kind: Config}")
    config = ("--kubeconfig", str(empty))
    who = await plane.ok("auth", "whoami", "-o", "json", *own, *config)
    info = yaml.safe_load(who)["status"]["userInfo"]
    assert info["username"] == "system:serviceaccount:default:robot"
    assert info["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    assert (await plane.run("get", "jobs.batch.volcano.sh", *own, *config)).code == 0
    assert "cannot list resource" in await plane.fails("get", "secrets", *own, *config)
    await plane.ok("delete", "serviceaccount", "robot")
    gone = await plane.fails("get", "jobs.batch.volcano.sh", *own, *config)
    assert "logged in" in gone or "Unauthorized" in gone


async def test_subject_access_reviews(plane: Plane) -> None:
    await plane.apply(ROLE, BINDING)
    spec = {
        "user": "bob",
        "resourceAttributes": {
            "namespace": "default",
            "verb": "create",
            "group": "batch.volcano.sh",
            "resource": "jobs",
        },
    }
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    made = await plane.ok("create", "-f", "-", "-o", "yaml", stdin=yaml.safe_dump(body))
    assert yaml.safe_load(made)["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "runners/default" of Role "runner" to User "bob"',
    }


PRIORITIES: list[dict[str, Any]] = [
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": number,
        "globalDefault": default,
    }
    for name, number, default in (
        ("production-training", 1000, False),
        ("development-training", 500, False),
        ("low-priority-training", 100, True),
    )
]
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "gpu-quota", "namespace": "ai-team-a"},
    "spec": {
        "hard": {
            "requests.cpu": "500",
            "requests.memory": "2000Gi",
            "requests.nvidia.com/gpu": "2",
            "limits.cpu": "1000",
            "limits.memory": "4000Gi",
            "limits.nvidia.com/gpu": "100",
            "persistentvolumeclaims": "50",
        }
    },
}
LIMITS = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "sizes", "namespace": "ai-team-a"},
    "spec": {
        "limits": [
            {
                "type": "Container",
                "default": {"cpu": "1", "memory": "1Gi"},
                "defaultRequest": {"cpu": "500m", "memory": "512Mi"},
                "max": {"cpu": "8", "memory": "64Gi"},
            }
        ]
    },
}


def trainer(name: str, gpus: str = "", **spec: Any) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    container = {"name": "trainer", "image": "busybox", "command": ["true"], "resources": resources}
    meta = {"name": name, "namespace": "ai-team-a"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


async def test_a_team_with_quota_limits_priorities_and_taints(plane: Plane) -> None:
    await plane.ok("create", "namespace", "ai-team-a")
    await plane.apply(QUOTA, LIMITS, *PRIORITIES)
    tolerations = [{"key": "gpu-node", "operator": "Equal", "value": "true", "effect": "NoSchedule"}]
    await plane.apply(trainer("tolerant", "2", tolerations=tolerations, nodeSelector={"gpu-type": "A100"}))
    stored = yaml.safe_load(await plane.ok("get", "pod", "tolerant", "-n", "ai-team-a", "-o", "yaml"))
    assert (stored["spec"]["priority"], stored["spec"]["priorityClassName"]) == (100, "low-priority-training")
    assert stored["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500m"
    described = await plane.ok("describe", "quota", "-n", "ai-team-a")
    assert "requests.nvidia.com/gpu  2" in described
    assert "requests.cpu             500m" in described
    assert "requests.cpu: 500m/500" in await plane.ok("get", "quota", "-n", "ai-team-a")
    over = await plane.fails("create", "-f", "-", stdin=yaml.safe_dump(trainer("more", "1")))
    assert (
        'pods "more" is forbidden: exceeded quota: gpu-quota, requested: requests.nvidia.com/gpu=1, '
        "used: requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2" in over
    )
    missing = trainer("unknown", priorityClassName="nope")
    assert "no PriorityClass with name nope was found" in await plane.fails(
        "create", "-f", "-", stdin=yaml.safe_dump(missing)
    )
    assert "Container" in await plane.ok("describe", "limitrange", "sizes", "-n", "ai-team-a")
    assert "default" in await plane.ok("get", "serviceaccounts", "-n", "ai-team-a")
    await plane.ok("delete", "namespace", "ai-team-a")
