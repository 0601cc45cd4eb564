"""Policies about who asks: on a cluster a Command takes the right to change its target, and fails closed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from installed import cluster, eventually, needs_cluster, place_of, refused, send

from support.cluster_turn import config
from unisono.api.annotations import CLUSTER, DISPATCH, DIVISION, GANG, MACHINES, SUBMITTED, USER
from unisono.api.cel import Budget, compile_expression
from unisono.api.cel.functions import Authorizer
from unisono.api.kinds import POD_GROUPS
from unisono.api.policies import RIGHTS, RUNNING, Policy
from unisono.api.policies.rule import Rule
from unisono.install.admission import PLACES_OF_JOBS, policies
from unisono.kube.http import HttpClient

QUEUE = "scheduling.volcano.sh"
JOB = "batch.volcano.sh"


def command(kind: str, api_version: str, name: str = "x", action: str = "CloseQueue") -> dict[str, Any]:
    target = {"kind": kind, "apiVersion": api_version, "name": name, "uid": ""}
    return {"metadata": {"name": "order", "namespace": "a"}, "action": action, "target": target}


def allowed(rule: Rule, obj: dict[str, Any], may: set[str], old: dict[str, Any] | None = None) -> bool:
    """Evaluate a rule as an API server does; ``may`` holds ``group/resource/namespace/name/verb``."""

    def decide(asked: Authorizer) -> bool:
        return "/".join((asked.group, asked.resource, asked.namespace, asked.name, asked.verb)) in may

    operation = "CREATE" if old is None else "UPDATE"
    request = {"operation": operation, "userInfo": {"username": "alice"}}
    values = {"object": obj, "oldObject": old, "authorizer": Authorizer(decide), "request": request}
    return compile_expression(rule.expression(), frozenset(values)).evaluate(values, Budget()) is True


def rules(name: str) -> tuple[Rule, ...]:
    return next(policy.rules for policy in RIGHTS if policy.name == name)


MAY_QUEUE = f"{QUEUE}/queues//x/update"
MAY_JOB = f"{JOB}/jobs/a/x/patch"
COMMANDS = [
    ("queue, no right", command("Queue", f"{QUEUE}/v1beta1"), set(), None, False),
    ("queue, version left out", command("Queue", QUEUE), set(), None, False),
    ("queue, another queue's right", command("Queue", f"{QUEUE}/v1beta1", "y"), {MAY_QUEUE}, None, False),
    ("queue, right", command("Queue", f"{QUEUE}/v1beta1"), {MAY_QUEUE}, None, True),
    ("job, no right", command("Job", f"{JOB}/v1alpha1"), {MAY_QUEUE}, None, False),
    ("job, right to patch", command("Job", f"{JOB}/v1alpha1"), {MAY_JOB}, None, True),
    ("job of Kubernetes, which obeys none", command("Job", "batch/v1"), set(), None, True),
    ("without a target", {"metadata": {"name": "order", "namespace": "a"}}, set(), None, True),
    (
        "turned to another target",
        command("Queue", f"{QUEUE}/v1beta1"),
        {MAY_JOB},
        command("Job", f"{JOB}/v1alpha1"),
        False,
    ),
    (
        "turned to another action",
        command("Queue", f"{QUEUE}/v1beta1"),
        set(),
        command("Queue", f"{QUEUE}/v1beta1", action="OpenQueue"),
        False,
    ),
    (
        "labelled by someone else",
        command("Queue", f"{QUEUE}/v1beta1"),
        set(),
        command("Queue", f"{QUEUE}/v1beta1"),
        True,
    ),
]


@pytest.mark.parametrize(("what", "obj", "may", "old", "expected"), COMMANDS, ids=[each[0] for each in COMMANDS])
def test_a_command_takes_the_right_to_change_its_target(
    what: str, obj: dict[str, Any], may: set[str], old: dict[str, Any] | None, expected: bool
) -> None:
    assert all(allowed(rule, obj, may, old) for rule in rules("commands")) is expected


GROUPS = [
    ("a", "system-node-critical", None, False),
    ("a", "high", None, True),
    ("a", None, None, True),
    ("kube-system", "system-node-critical", None, True),
    ("a", "system-node-critical", "system-node-critical", True),
    ("a", "system-node-critical", "high", False),
]


@pytest.mark.parametrize(("namespace", "name", "before", "expected"), GROUPS)
def test_pod_groups_take_the_systems_priority_in_kube_system_only(
    namespace: str, name: str | None, before: str | None, expected: bool
) -> None:
    def group(given: str | None) -> dict[str, Any]:
        spec = {"minMember": 1} | ({"priorityClassName": given} if given else {})
        return {"metadata": {"name": "g", "namespace": namespace}, "spec": spec}

    old = group(before) if before else None
    assert all(allowed(rule, group(name), set(), old) for rule in rules("podgroup-user")) is expected


def test_policies_about_rights_fail_closed_and_look_at_objects_on_their_way_out() -> None:
    """A Command with a finalizer that is being deleted is still carried out: no state of it may skip the check."""
    made = {one["metadata"]["name"]: one["spec"] for one in policies() if one["kind"] == "ValidatingAdmissionPolicy"}
    for policy in RIGHTS:
        spec = made[f"{policy.name}.unisono"]
        assert spec["failurePolicy"] == "Fail"
        assert [one["name"] for one in spec.get("matchConditions", ())] == (["concerned"] if policy.only_if else [])
        assert {each["reason"] for each in spec["validations"]} == {"Forbidden"}
        for rule in spec["matchConstraints"]["resourceRules"]:
            assert rule["operations"] == ["CREATE", "UPDATE"]


def test_whose_object_it_is_is_asked_of_every_kind_of_which_it_is_written_down() -> None:
    asked = {
        (group, version, resource)
        for one in policies(webhook=True)
        if one["metadata"]["name"] in ("users.unisono", "podgroup-user.unisono") and "matchConstraints" in one["spec"]
        for rule in one["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for version in rule["apiVersions"]
        for resource in rule["resources"]
    }
    versions = {(kind, version) for kind in SUBMITTED for version in (kind.version, *kind.alias_versions)}
    assert asked == {(kind.group, version, kind.plural) for kind, version in versions}


def evaluated(expression: str, values: dict[str, Any]) -> bool:
    return compile_expression(expression, frozenset(values)).evaluate(values, Budget()) is True


users = st.sampled_from([None, "", "alice", "bob"])
classes = st.sampled_from([None, "", "high", "system-", "system-node-critical"])


@given(users, users, classes, classes, st.sampled_from(["a", "kube-system"]), st.booleans())
def test_who_is_not_asked_would_pass(
    user: str | None, old_user: str | None, wanted: str | None, old_wanted: str | None, namespace: str, new: bool
) -> None:
    def group(noted: str | None, priority: str | None) -> dict[str, Any]:
        meta: dict[str, Any] = {"name": "g", "namespace": namespace}
        if noted is not None:
            meta["annotations"] = {"unisono.io/user": noted}
        return {"metadata": meta, "spec": {} if priority is None else {"priorityClassName": priority}}

    values = {
        "object": group(user, wanted),
        "oldObject": None if new else group(old_user, old_wanted),
        "authorizer": Authorizer(lambda _: False),
        "request": {"operation": "CREATE" if new else "UPDATE", "userInfo": {"username": "alice"}},
    }
    for policy in RIGHTS:
        if policy.only_if:
            passes = all(evaluated(rule.expression(), values) for rule in policy.rules)
            assert passes or evaluated(policy.only_if, values), policy.name


@pytest.mark.parametrize("policy", [one for one in RIGHTS if one.only_if], ids=lambda policy: policy.name)
def test_a_change_of_status_alone_is_not_asked_about(policy: Policy) -> None:
    """The scheduler writes the status of PodGroups all the time, and they have no subresource for it."""
    one = {"metadata": {"name": "g", "namespace": "a", "annotations": {"unisono.io/user": "bob"}}, "spec": {}}
    values = {
        "object": one | {"status": {"phase": "Running"}},
        "oldObject": one,
        "request": {"operation": "UPDATE", "userInfo": {"username": "system:serviceaccount:x:unisono-scheduler"}},
    }
    assert not evaluated(policy.only_if, values)


AUTHORS = [
    ("names no one", None, None, "CREATE", set(), True),
    ("names its author", "alice", None, "CREATE", set(), True),
    ("names another user", "bob", None, "CREATE", set(), False),
    ("made for a user", "bob", None, "CREATE", {"act-for"}, True),
    ("keeps the name, changed by another", "bob", "bob", "UPDATE", set(), True),
    ("another name later", "alice", "bob", "UPDATE", set(), False),
    ("no name any more", None, "bob", "UPDATE", set(), False),
    ("a name later", "alice", None, "UPDATE", set(), False),
    ("changed for a user", "bob", None, "UPDATE", {"act-for"}, True),
]


@pytest.mark.parametrize("policy", ["users", "podgroup-user"])
@pytest.mark.parametrize(
    ("what", "name", "before", "operation", "may", "expected"), AUTHORS, ids=[each[0] for each in AUTHORS]
)
def test_whose_object_it_is_cannot_be_chosen(
    policy: str, what: str, name: str | None, before: str | None, operation: str, may: set[str], expected: bool
) -> None:
    def noted(user: str | None) -> dict[str, Any]:
        notes = {"annotations": {"unisono.io/user": user}} if user else {}
        return {"metadata": {"name": "x", "namespace": "a", **notes}}

    values = {
        "object": noted(name),
        "oldObject": noted(before) if operation == "UPDATE" else None,
        "authorizer": Authorizer(
            lambda asked: asked.verb in may and (asked.group, asked.resource) == (QUEUE, "queues")
        ),
        "request": {"operation": operation, "userInfo": {"username": "alice"}},
    }
    found = [
        compile_expression(rule.expression(), frozenset(values)).evaluate(values, Budget()) is True
        for rule in rules(policy)
    ]
    assert all(found) is expected


PLACED = {CLUSTER: "a", DISPATCH: "3", MACHINES: '{"dispatch":3}'}
PLACES = [
    ("a new job without a place", {"mine": "1"}, None, set(), True),
    ("a new job with a place", {CLUSTER: "a"}, None, set(), False),
    ("a new job with replicas in members", {DIVISION: '{"a":9}'}, None, set(), False),
    ("made by the hub", PLACED, None, {"place"}, True),
    ("made of a template by who acts for users", PLACED, None, {"act-for"}, False),
    ("stays where it is", {**PLACED, "mine": "1"}, PLACED, set(), True),
    ("sent by its author", PLACED, {}, set(), False),
    ("sent by the hub", PLACED, {}, {"place"}, True),
    ("moved by its author", {**PLACED, CLUSTER: "b", DISPATCH: "4"}, PLACED, set(), False),
    ("taken back", {DISPATCH: "4"}, PLACED, set(), True),
    ("taken back under a number of later", {DISPATCH: "5"}, PLACED, set(), False),
    ("taken back with another gang", {DISPATCH: "4", GANG: "{}"}, PLACED, set(), False),
    ("forgotten", {}, PLACED, set(), False),
    ("other machines", {**PLACED, MACHINES: '{"dispatch":3,"patience":1e300}'}, PLACED, set(), False),
    ("divided again", {}, {DIVISION: '{"a":9}'}, set(), True),
    ("divided by hand", {DIVISION: '{"b":9}'}, {DIVISION: '{"a":9}'}, set(), False),
]


@pytest.mark.parametrize(("what", "notes", "before", "may", "expected"), PLACES, ids=[each[0] for each in PLACES])
def test_only_the_hub_says_where_jobs_are(
    what: str, notes: dict[str, str], before: dict[str, str] | None, may: set[str], expected: bool
) -> None:
    def noted(given: dict[str, str]) -> dict[str, Any]:
        return {"metadata": {"name": "x", "namespace": "a", **({"annotations": given} if given else {})}}

    values = {
        "object": noted(notes),
        "oldObject": None if before is None else noted(before),
        "authorizer": Authorizer(lambda asked: asked.verb in may and asked.resource == "queues"),
        "request": {"operation": "CREATE" if before is None else "UPDATE", "userInfo": {"username": "alice"}},
    }
    asked = evaluated(PLACES_OF_JOBS.only_if, values)
    assert (not asked or all(evaluated(rule.expression(), values) for rule in PLACES_OF_JOBS.rules)) is expected


GROUP, SAME = "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"
MEMBERS = [
    ("annotated", {GROUP: "g", "mine": "1"}, {GROUP: "g"}, "n0", set(), True),
    ("first group", {GROUP: "g"}, {}, "n0", set(), True),
    ("another group before it has a node", {GROUP: "h"}, {GROUP: "g"}, "", set(), True),
    ("another group", {GROUP: "h"}, {GROUP: "g"}, "n0", set(), False),
    ("no group", {}, {GROUP: "g"}, "n0", set(), False),
    ("no group by Volcano's key", {SAME: ""}, {SAME: "g"}, "n0", set(), False),
    ("the key that counts more", {GROUP: "h", SAME: "g"}, {SAME: "g"}, "n0", set(), False),
    ("the other key", {GROUP: "g"}, {SAME: "g"}, "n0", set(), True),
    ("by controllers", {GROUP: "h"}, {GROUP: "g"}, "n0", {"act-for"}, True),
    ("out of a gang of Kubernetes", {GROUP: "h"}, {}, "n0 of g", set(), False),
    ("annotated in a gang of Kubernetes", {GROUP: "g"}, {}, "n0 of g", set(), True),
]


@pytest.mark.parametrize(
    ("what", "notes", "before", "node", "may", "expected"), MEMBERS, ids=[each[0] for each in MEMBERS]
)
def test_a_pod_that_has_a_node_stays_in_its_gang(
    what: str, notes: dict[str, str], before: dict[str, str], node: str, may: set[str], expected: bool
) -> None:
    place, _, gang = node.partition(" of ")

    def noted(given: dict[str, str]) -> dict[str, Any]:
        spec = {
            **({"nodeName": place} if place else {}),
            **({"schedulingGroup": {"podGroupName": gang}} if gang else {}),
        }
        return {"metadata": {"annotations": given} if given else {}, "spec": spec}

    values = {
        "object": noted(notes),
        "oldObject": noted(before),
        "authorizer": Authorizer(lambda asked: asked.verb in may),
        "request": {"operation": "UPDATE", "userInfo": {"username": "alice"}},
    }
    (policy,) = RUNNING
    asked = evaluated(policy.only_if, values)
    assert (not asked or all(evaluated(rule.expression(), values) for rule in policy.rules)) is expected


def test_hubs_alone_ask_where_jobs_are() -> None:
    made = [{one["metadata"]["name"] for one in policies(webhook=True, hub=hub)} for hub in (False, True)]
    assert made[1] - made[0] == {"places.unisono"}


# ---- on a cluster

PATH = POD_GROUPS.path("default")


def gang(**spec: Any) -> dict[str, Any]:
    meta = {"name": "probe", "namespace": "default"}
    return {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": 1} | spec}


@pytest.fixture
async def admin(cluster_turn: None) -> AsyncIterator[HttpClient]:
    """A cluster on which the policies beside the webhook have come into effect."""
    made = policies(webhook=True)
    async with cluster() as client:
        for one in made:
            status, answer = await send(client, "PATCH", place_of(one), one)
            assert status in (200, 201), answer
        try:
            urgent = gang(priorityClassName="system-node-critical")

            async def effective() -> bool:
                return (await send(client, "POST", PATH, urgent, dry=True))[0] == 403

            await eventually(effective)
            yield client
        finally:
            for one in reversed(made):
                await send(client, "DELETE", place_of(one))


@pytest.fixture
async def author(admin: HttpClient) -> AsyncIterator[HttpClient]:
    """Alice, who may write PodGroups of the namespace ``default`` and nothing else."""
    api, name = "rbac.authorization.k8s.io", "unisono-test-author"
    rules = [{"apiGroups": [POD_GROUPS.group], "resources": ["podgroups"], "verbs": ["*"]}]
    role = {"kind": "Role", "metadata": {"name": name}, "rules": rules}
    subjects = [{"apiGroup": api, "kind": "User", "name": "alice"}]
    ref = {"apiGroup": api, "kind": "Role", "name": name}
    binding = {"kind": "RoleBinding", "metadata": {"name": name}, "subjects": subjects, "roleRef": ref}
    places = [f"/apis/{api}/v1/namespaces/default/{plural}/{name}" for plural in ("roles", "rolebindings")]
    for place, one in zip(places, (role, binding), strict=True):
        status, answer = await send(admin, "PATCH", place, {"apiVersion": f"{api}/v1", **one})
        assert status in (200, 201), answer
    alice = HttpClient(replace(config(), impersonate=(("Impersonate-User", "alice"),)))
    try:

        async def may() -> bool:
            status, _ = await send(alice, "POST", PATH, gang(), dry=True)
            return status == 201

        await eventually(may)
        yield alice
    finally:
        await alice.close()
        for place in places:
            await send(admin, "DELETE", place)


def noted(value: dict[str, Any], user: str | None) -> dict[str, Any]:
    notes = {} if user is None else {USER: user}
    return value | {"metadata": value["metadata"] | {"annotations": notes}}


@needs_cluster
async def test_a_cluster_lets_nobody_choose_whose_a_gang_is_nor_take_the_systems_priority(
    admin: HttpClient, author: HttpClient
) -> None:
    urgent = gang(priorityClassName="system-node-critical")
    await send(admin, "DELETE", f"{PATH}/probe")
    for value, told in ((noted(gang(), "bob"), "who submits"), (urgent, "for kube-system only")):
        assert told in refused(await send(author, "POST", PATH, value, dry=True))
    mine = noted(gang(), "alice")
    mine["metadata"]["finalizers"] = ["example.com/stays"]
    status, made = await send(author, "POST", PATH, mine)
    assert status == 201, made

    async def put(client: HttpClient, change: Callable[[dict[str, Any]], dict[str, Any]], *, dry: bool = True) -> Any:
        _, found = await send(admin, "GET", f"{PATH}/probe")
        return await send(client, "PUT", f"{PATH}/probe", change(found), dry=dry)

    def raised(found: dict[str, Any]) -> dict[str, Any]:
        return found | {"spec": found["spec"] | urgent["spec"]}

    try:
        for leaving in (False, True):
            if leaving:
                status, answer = await send(author, "DELETE", f"{PATH}/probe")
                assert status == 200, answer
            assert "who submits" in refused(await put(author, lambda found: noted(found, "bob")))
            assert "who submits" in refused(await put(author, lambda found: noted(found, None)))
            assert "for kube-system only" in refused(await put(author, raised))
            for good in ({"status": {"phase": "Inqueue"}}, {"spec": made["spec"] | {"minMember": 2}}):
                status, answer = await put(author, lambda found, good=good: found | good)
                assert status == 200, answer
            status, answer = await put(admin, lambda found: noted(found, "bob"))
            assert status == 200, answer
    finally:
        await put(admin, lambda found: found | {"metadata": found["metadata"] | {"finalizers": []}}, dry=False)
        await send(admin, "DELETE", f"{PATH}/probe")
