"""Roles and bindings: the algebra of rules, who gets what, and that nobody grants more than he has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends import DELETE, WriteOptions, namespace_body, opened, read, settle, value
from unisono.api.groups.access import ClusterRole, PolicyRule
from unisono.api.keys import MASTERS
from unisono.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CONFIG_MAPS, NAMESPACES, ROLE_BINDINGS, ROLES
from unisono.apiserver.access.user import ANONYMOUS, AUTHENTICATED, User
from unisono.apiserver.authorization.authorizer import (
    Action,
    aggregated_rules,
    allows,
    covers,
    refusal,
    single_rights,
    uncovered,
)
from unisono.apiserver.authorization.roles import AUTO_UPDATE
from unisono.apiserver.backend import Backend
from unisono.errors import ApiError, Invalid, NotFound

GROUP, RBAC = ROLES.api_version, ROLES.group
BOB = User("bob", ("team", AUTHENTICATED))
AS_BOB = WriteOptions(user="bob", groups=BOB.groups)


def rule(verbs: str = "", resources: str = "", groups: str | None = "", names: str = "", urls: str = "") -> PolicyRule:
    return PolicyRule(
        verbs=verbs.split(),
        api_groups=None if urls else (groups or "").split(",") if groups is not None else None,
        resources=resources.split() or None,
        resource_names=names.split() or None,
        non_resource_urls=urls.split() or None,
    )


def on(verb: str, combined: str, group: str = "", name: str = "", namespace: str | None = "a") -> Action:
    resource, _, sub = combined.partition("/")
    return Action(verb, group=group, resource=resource, subresource=sub, namespace=namespace, name=name)


ALLOWED = [
    (rule("get list", "pods"), on("get", "pods"), True),
    (rule("get", "pods"), on("list", "pods"), False),
    (rule("get", "pods"), on("get", "pods/log"), False),
    (rule("get", "pods/log"), on("get", "pods/log"), True),
    (rule("get", "pods/log"), on("get", "pods"), False),
    (rule("get", "*/log"), on("get", "pods/log"), True),
    (rule("get", "*/log"), on("get", "pods/status"), False),
    (rule("get", "*"), on("get", "pods/log"), True),
    (rule("*", "*", "*"), on("escalate", "roles", "rbac.authorization.k8s.io"), True),
    (rule("get", "jobs", "batch"), on("get", "jobs", "batch.volcano.sh"), False),
    (rule("get", "secrets", names="mine"), on("get", "secrets", name="mine"), True),
    (rule("get", "secrets", names="mine"), on("get", "secrets", name="other"), False),
    (rule("list", "secrets", names="mine"), on("list", "secrets"), False),
    (rule("get", "pods"), on("*", "pods"), False),
    (rule("get", urls="/metrics"), Action("get", path="/metrics"), True),
    (rule("get", urls="/healthz/*"), Action("get", path="/healthz/etcd"), True),
    (rule("get", urls="/healthz/*"), Action("get", path="/healthz"), False),
    (rule("get", urls="*"), Action("get", path="/anything"), True),
    (rule("*", "*", "*"), Action("get", path="/metrics"), False),
    (rule("get", urls="*"), on("get", "pods"), False),
]


@pytest.mark.parametrize(("given_rule", "action", "expected"), ALLOWED)
def test_what_a_rule_allows(given_rule: PolicyRule, action: Action, expected: bool) -> None:
    assert allows(given_rule, action) is expected


words = st.sampled_from(["get", "list", "create", "*"])
places = st.sampled_from(["pods", "pods/log", "*/log", "jobs", "*"])
groups = st.sampled_from(["", "batch", "*"])
names = st.sampled_from(["a", "b"])
paths = st.sampled_from(["/a", "/a/b", "/a/*", "*"])
resource_rules = st.builds(
    PolicyRule,
    verbs=st.lists(words, min_size=1, max_size=2),
    api_groups=st.lists(groups, min_size=1, max_size=2),
    resources=st.lists(places, min_size=1, max_size=2),
    resource_names=st.none() | st.lists(names, min_size=1, max_size=2),
)
url_rules = st.builds(
    PolicyRule, verbs=st.lists(words, min_size=1, max_size=2), non_resource_urls=st.lists(paths, min_size=1, max_size=2)
)
any_rule = resource_rules | url_rules
actions = st.builds(
    Action,
    verb=st.sampled_from(["get", "list", "create"]),
    group=st.sampled_from(["", "batch"]),
    resource=st.sampled_from(["pods", "jobs"]),
    subresource=st.sampled_from(["", "log"]),
    name=st.sampled_from(["", "a", "b", "c"]),
) | st.builds(Action, verb=st.sampled_from(["get", "list"]), path=st.sampled_from(["/a", "/a/b", "/c"]))


@given(st.lists(any_rule, max_size=4), any_rule, actions)
def test_more_rules_never_take_a_right_away(rules: list[PolicyRule], more: PolicyRule, action: Action) -> None:
    before = any(allows(one, action) for one in rules)
    after = any(allows(one, action) for one in [more, *rules])
    assert after or not before


@given(st.lists(any_rule, max_size=4), any_rule, actions)
def test_who_covers_a_rule_may_do_all_that_it_allows(
    rules: list[PolicyRule], wanted: PolicyRule, action: Action
) -> None:
    if not uncovered(rules, [wanted]) and allows(wanted, action):
        assert any(allows(one, action) for one in rules)


@given(any_rule)
def test_every_rule_covers_itself_and_its_single_rights(one: PolicyRule) -> None:
    assert covers(one, one)
    assert not uncovered([one], single_rights(one))


async def bound(
    backend: Backend, role: str, *, namespace: str = "a", role_kind: str = "ClusterRole", **subject: str
) -> None:
    who = {"kind": "User", "name": "bob", **{key.rstrip("_"): text for key, text in subject.items()}}
    body = {
        "apiVersion": GROUP,
        "kind": "RoleBinding",
        "metadata": {"name": f"{role.replace(':', '-')}-{who['name']}".lower(), "namespace": namespace},
        "roleRef": {"kind": role_kind, "name": role},
        "subjects": [who],
    }
    await backend.service.create(ROLE_BINDINGS, namespace, body, WriteOptions())


def role_body(name: str, *rules: dict[str, Any], namespace: str | None = "a", **fields: Any) -> dict[str, Any]:
    kind = "Role" if namespace else "ClusterRole"
    meta = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("meta", {})}
    return {"apiVersion": GROUP, "kind": kind, "metadata": meta, "rules": list(rules), **fields}


READ_PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}


async def ready(backend: Backend) -> None:
    for name in ("a", "b"):
        await backend.service.create(NAMESPACES, None, namespace_body(name), WriteOptions())
    await settle(backend)


async def test_a_role_holds_in_its_namespace_and_only_as_long_as_its_binding() -> None:
    async with opened() as backend:
        await ready(backend)
        decide = backend.service.authorizer.decide
        jobs = on("create", "jobs", "batch.volcano.sh")
        assert not decide(BOB, jobs).allowed
        await bound(backend, "edit")
        decision = decide(BOB, jobs)
        assert decision.allowed
        assert decision.reason == 'RBAC: allowed by RoleBinding "edit-bob/a" of ClusterRole "edit" to User "bob"'
        assert not decide(BOB, on("create", "jobs", "batch.volcano.sh", namespace="b")).allowed
        assert not decide(BOB, on("list", "pods", namespace=None)).allowed
        assert not decide(User("eve", (AUTHENTICATED,)), jobs).allowed
        await backend.service.delete(ROLE_BINDINGS, "a", "edit-bob", DELETE)
        assert not decide(BOB, jobs).allowed


async def test_groups_and_service_accounts_are_subjects_too() -> None:
    async with opened() as backend:
        await ready(backend)
        decide = backend.service.authorizer.decide
        await bound(backend, "view", name="team")
        await bound(backend, "view", namespace="b", kind="Group", name="team")
        assert not decide(BOB, on("list", "pods")).allowed  # a user "team" is not the group
        assert decide(BOB, on("list", "pods", namespace="b")).allowed
        await bound(backend, "view", kind="ServiceAccount", name="robot", namespace_="b")
        assert decide(User("system:serviceaccount:b:robot"), on("list", "pods")).allowed
        assert not decide(User("system:serviceaccount:a:robot"), on("list", "pods")).allowed


async def test_what_everybody_may() -> None:
    async with opened() as backend:
        decide = backend.service.authorizer.decide
        for path in ("/healthz", "/livez", "/readyz", "/version", "/version/"):
            assert decide(ANONYMOUS, Action("get", path=path)).allowed
        for path in ("/api", "/apis", "/openapi/v3", "/metrics", "/openid/v1/jwks", "/unisono/v1/backup"):
            assert not decide(ANONYMOUS, Action("get", path=path)).allowed
        assert decide(BOB, Action("get", path="/apis/batch.volcano.sh/v1alpha1")).allowed
        assert decide(BOB, on("create", "selfsubjectaccessreviews", "authorization.k8s.io", namespace=None)).allowed
        assert not decide(BOB, Action("get", path="/metrics")).allowed
        assert decide(User("root", (MASTERS,)), Action("get", path="/unisono/v1/backup")).allowed


async def test_viewers_read_no_secrets_and_editors_write_no_roles() -> None:
    async with opened() as backend:
        await ready(backend)
        may = {}
        for role in ("view", "edit", "admin"):
            await bound(backend, role, name=role)
            user = User(role)
            may[role] = [
                backend.service.authorizer.decide(user, action).allowed
                for action in (
                    on("get", "pods/log"),
                    on("get", "secrets"),
                    on("create", "pods"),
                    on("create", "rolebindings", "rbac.authorization.k8s.io"),
                    on("update", "resourcequotas"),
                    on("update", "pods/status"),
                )
            ]
        assert may == {
            "view": [True, False, False, False, False, False],
            "edit": [True, True, True, False, False, False],
            "admin": [True, True, True, True, False, False],
        }


@pytest.mark.parametrize("role", ["edit", "admin"])
async def test_no_role_of_a_namespace_may_write_what_its_pods_may_do_on_the_machine(role: str) -> None:
    # Label pod-security.kubernetes.io/enforce and annotation unisono.io/readable-directories of the namespace.
    async with opened() as backend:
        await ready(backend)
        await bound(backend, role)
        for verb in ("create", "update", "patch", "delete", "deletecollection"):
            for resource in ("namespaces", "namespaces/status", "namespaces/finalize"):
                for where, name in (("a", "a"), ("a", ""), (None, "a"), (None, "")):
                    action = on(verb, resource, name=name, namespace=where)
                    assert not backend.service.authorizer.decide(BOB, action).allowed, action
        # Nor can they give themselves a role that may: it would hold rights that they lack.
        grant = role_body("label", {"verbs": ["patch"], "apiGroups": [""], "resources": ["namespaces"]})
        with pytest.raises(ApiError, match="namespaces"):
            await backend.service.create(ROLES, "a", grant, AS_BOB)


async def test_a_missing_role_is_named() -> None:
    async with opened() as backend:
        await ready(backend)
        await bound(backend, "ghost", role_kind="Role")
        action = on("list", "pods")
        error = refusal(BOB, action, backend.service.authorizer.decide(BOB, action).reason)
        assert error.message == (
            'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "a": '
            'RBAC: role.rbac.authorization.k8s.io "ghost" not found'
        )


async def test_nobody_grants_what_he_has_not() -> None:
    async with opened() as backend:
        await ready(backend)
        service = backend.service
        await bound(backend, "edit")
        await bound(backend, "admin", namespace="b")
        with pytest.raises(ApiError) as refused:
            await service.create(ROLES, "a", role_body("r", {**READ_PODS, "resources": ["nodes", "pods"]}), AS_BOB)
        assert refused.value.code == 403
        assert refused.value.message == (
            'roles.rbac.authorization.k8s.io "r" is forbidden: user "bob" (groups=["team" "system:authenticated"]) is '
            "attempting to grant RBAC permissions not currently held:\n"
            '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "list"]}'
        )
        await service.create(ROLES, "a", role_body("r", READ_PODS), AS_BOB)
        with pytest.raises(ApiError, match="not currently held"):
            await service.patch(ROLES, "a", "r", {"rules": [{**READ_PODS, "verbs": ["*"]}]}, "merge", AS_BOB)
        await service.patch(ROLES, "a", "r", {"metadata": {"labels": {"x": "y"}}}, "merge", AS_BOB)
        binding = {
            "apiVersion": GROUP,
            "kind": "RoleBinding",
            "metadata": {"name": "x", "namespace": "a"},
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "name": "bob"}],
        }
        with pytest.raises(ApiError, match=r'Resources:\["\*"\]'):
            await service.create(ROLE_BINDINGS, "a", binding, AS_BOB)
        with pytest.raises(NotFound, match='"none" not found'):
            missing = {**binding, "roleRef": {"kind": "ClusterRole", "name": "none"}}
            await service.create(ROLE_BINDINGS, "a", missing, AS_BOB)


async def test_the_verbs_bind_and_escalate_lift_the_rule() -> None:
    async with opened() as backend:
        await ready(backend)
        service = backend.service
        allowed = role_body(
            "granter",
            {
                "verbs": ["bind"],
                "apiGroups": [GROUP.split("/")[0]],
                "resources": ["clusterroles"],
                "resourceNames": ["view"],
            },
            {"verbs": ["escalate"], "apiGroups": [GROUP.split("/")[0]], "resources": ["roles"]},
        )
        await service.create(ROLES, "a", allowed, WriteOptions())
        await bound(backend, "granter", role_kind="Role")
        await service.create(ROLES, "a", role_body("any", {**READ_PODS, "verbs": ["*"]}), AS_BOB)
        binding = {
            "apiVersion": GROUP,
            "kind": "RoleBinding",
            "metadata": {"name": "x", "namespace": "a"},
            "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "User", "name": "eve"}],
        }
        await service.create(ROLE_BINDINGS, "a", binding, AS_BOB)
        with pytest.raises(ApiError, match="not currently held"):
            more = {
                **binding,
                "metadata": {"name": "y", "namespace": "a"},
                "roleRef": {"kind": "ClusterRole", "name": "edit"},
            }
            await service.create(ROLE_BINDINGS, "a", more, AS_BOB)


async def test_aggregated_roles_follow_what_they_select() -> None:
    async with opened() as backend:
        await settle(backend)
        label = {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}
        widgets = {"verbs": ["get"], "apiGroups": ["x.io"], "resources": ["widgets"]}
        body = role_body("widget-viewer", widgets, namespace=None, meta=label)
        await backend.service.create(CLUSTER_ROLES, None, body, WriteOptions())
        await settle(backend)
        for name in ("view", "edit", "admin"):
            assert widgets in (await read(backend.service, CLUSTER_ROLES, None, name))["rules"]
        await backend.service.delete(CLUSTER_ROLES, None, "widget-viewer", DELETE)
        await settle(backend)
        for name in ("view", "edit", "admin"):
            assert widgets not in (await read(backend.service, CLUSTER_ROLES, None, name))["rules"]


def test_a_role_does_not_aggregate_itself() -> None:
    role = ClusterRole(rules=[rule("get", "pods")])
    role.metadata.name, role.metadata.labels = "x", {"a": "b"}
    assert aggregated_rules(role, [role]) == []


async def test_default_roles_are_kept_up_unless_their_owner_says_no(tmp_path: Any) -> None:
    path = tmp_path / "state.db"
    async with opened(path) as backend:
        change = {"rules": [READ_PODS]}
        await backend.service.patch(CLUSTER_ROLES, None, "system:discovery", change, "merge", WriteOptions())
        kept = {**change, "metadata": {"annotations": {AUTO_UPDATE: "false"}}}
        await backend.service.patch(CLUSTER_ROLES, None, "system:basic-user", kept, "merge", WriteOptions())
        await backend.service.delete(CLUSTER_ROLE_BINDINGS, None, "system:discovery", DELETE)
    async with opened(path) as backend:
        discovery = await read(backend.service, CLUSTER_ROLES, None, "system:discovery")
        assert discovery["rules"][0] == READ_PODS
        assert any("/apis" in one.get("nonResourceURLs", ()) for one in discovery["rules"])
        assert (await read(backend.service, CLUSTER_ROLES, None, "system:basic-user"))["rules"] == [READ_PODS]
        assert value(await backend.service.get(CLUSTER_ROLE_BINDINGS, None, "system:discovery"))


INVALID = [
    (ROLES, role_body("x", {"verbs": [], "apiGroups": [""], "resources": ["pods"]}), "rules[0].verbs: Required value"),
    (ROLES, role_body("x", {"verbs": ["get"], "resources": ["pods"]}), "rules[0].apiGroups: Required value"),
    (
        ROLES,
        role_body("x", {"verbs": ["get"], "nonResourceURLs": ["/x"]}),
        "namespaced rules cannot apply",
    ),
    (ROLES, role_body("a/b", READ_PODS), "may not contain '/'"),
    (
        ROLE_BINDINGS,
        {
            "apiVersion": GROUP,
            "kind": "RoleBinding",
            "metadata": {"name": "x", "namespace": "a"},
            "roleRef": {"kind": "Thing", "name": "x"},
            "subjects": [{"kind": "Robot", "name": "r"}],
        },
        'roleRef.kind: Unsupported value: "Thing": supported values: "Role", "ClusterRole"',
    ),
]


@pytest.mark.parametrize(("kind", "body", "message"), INVALID)
async def test_invalid_roles_are_refused(kind: Any, body: dict[str, Any], message: str) -> None:
    async with opened() as backend:
        await ready(backend)
        with pytest.raises(Invalid) as refused:
            await backend.service.create(kind, "a", body, WriteOptions())
        assert message in refused.value.message


async def test_a_binding_keeps_its_role() -> None:
    async with opened() as backend:
        await ready(backend)
        await bound(backend, "view")
        with pytest.raises(Invalid, match="cannot change roleRef"):
            change = {"roleRef": {"name": "edit"}}
            await backend.service.patch(ROLE_BINDINGS, "a", "view-bob", change, "merge", WriteOptions())


async def test_an_apply_that_creates_needs_the_right_to_create() -> None:
    async with opened() as backend:
        await ready(backend)
        patcher = {"verbs": ["patch"], "apiGroups": [""], "resources": ["configmaps"]}
        await backend.service.create(ROLES, "a", role_body("patcher", patcher), WriteOptions())
        await bound(backend, "patcher", role_kind="Role")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "a"}}
        options = WriteOptions(user="bob", groups=BOB.groups, field_manager="me")

        async def apply() -> None:
            await backend.service.patch(CONFIG_MAPS, "a", "c", body, "apply", options)

        with pytest.raises(ApiError) as refused:
            await apply()
        assert refused.value.message == (
            'configmaps "c" is forbidden: User "bob" cannot create resource "configmaps" in API group "" '
            'in the namespace "a"'
        )
        await backend.service.create(CONFIG_MAPS, "a", body, WriteOptions())
        await apply()
