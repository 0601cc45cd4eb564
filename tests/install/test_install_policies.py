"""Policies in CEL refuse what validation refuses, in the same words, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from installed import cluster, eventually, needs_cluster, place_of, refused, send

from support.plane import REPOSITORY
from support.virtual_clock import VirtualClock
from unisono.api import kinds, messages
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.keys import ADMISSION_API_VERSION, JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE
from unisono.api.kind import Kind
from unisono.api.kind_families import CRON_JOBS, HYPER_JOBS, JOB_FLOWS, JOB_TEMPLATES
from unisono.api.kinds import find
from unisono.api.policies import POLICIES
from unisono.api.policies.jobs import budget_rules
from unisono.api.policies.rule import text as quoted
from unisono.api.validation import validate
from unisono.api.yaml import expand_lists, load_all
from unisono.apiserver.admission.pods import check_disruption_budget
from unisono.apiserver.admission.request import Request
from unisono.apiserver.custom import rules
from unisono.errors import Invalid
from unisono.install.admission import policies, webhooks
from unisono.install.workloads import InstallOptions
from unisono.kube.http import HttpClient
from unisono.webhook.review import check, read
from unisono.webhook.server import SEEN, Objects

TASK: dict[str, Any] = {
    "name": "work",
    "replicas": 2,
    "minAvailable": 2,
    "template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}},
}
EXIT = {"action": "RestartJob", "exitCode": 3}


def spec(*tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"minAvailable": 1, "queue": "default", "schedulerName": "volcano", "tasks": list(tasks or [TASK])} | more


def task(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(TASK) | changes


def named(kind: Kind[Any], name: str, **content: Any) -> dict[str, Any]:
    place = {"namespace": "default"} if kind.namespaced else {}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **place}, **content}


def job(*tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return named(kinds.JOBS, "probe", spec=spec(*tasks, **more))


def queue(**content: Any) -> dict[str, Any]:
    return named(kinds.QUEUES, "probe", spec={"weight": 1} | content)


def group(**content: Any) -> dict[str, Any]:
    return named(kinds.POD_GROUPS, "probe", spec={"minMember": 1} | content)


def cron(name: str = "probe", **content: Any) -> dict[str, Any]:
    base = {"schedule": "@daily", "jobTemplate": {"spec": spec()}}
    return named(CRON_JOBS, name, spec=base | content)


def flow(*flows: tuple[str, list[str]]) -> dict[str, Any]:
    made = [{"name": name, "dependsOn": {"targets": targets}} for name, targets in flows]
    return named(JOB_FLOWS, "probe", spec={"flows": made})


def hyper(*jobs: dict[str, Any]) -> dict[str, Any]:
    return named(HYPER_JOBS, "probe", spec={"replicatedJobs": list(jobs)})


def partition(total: int, size: int) -> dict[str, Any]:
    return {"partitionPolicy": {"totalPartitions": total, "partitionSize": size}}


TIERS = {"mode": "hard", "highestTierAllowed": 1, "highestTierName": "rack"}
EXCLUSIVE = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("no tasks", named(kinds.JOBS, "probe", spec={"queue": "default", "tasks": []}), "No task specified in job spec"),
    ("gang of a task", job(task(minAvailable=3)), "'minAvailable' is greater than 'replicas' in task: work"),
    (
        "gang of the job",
        job(minAvailable=3),
        "job 'minAvailable' should not be greater than total replicas in tasks (2)",
    ),
    ("same names", job(task(), task()), "duplicated task name"),
    ("unknown plug-in", job(plugins={"sbc": []}), "unable to find job plugin: sbc"),
    ("partitions", job(task(**partition(3, 2))), "'Replicas' are not equal to TotalPartitions*PartitionSize"),
    ("tiers of a job", job(networkTopology=TIERS), EXCLUSIVE),
    ("policy of nothing", job(policies=[{"action": "RestartJob"}]), "either event and exitCode should be specified"),
    (
        "policy of both",
        job(policies=[EXIT | {"event": "PodFailed"}]),
        "must not specify event and exitCode simultaneously",
    ),
    ("exit code 0", job(policies=[EXIT | {"exitCode": 0}]), "0 is not a valid error code"),
    (
        "policy of a task",
        job(task(policies=[EXIT | {"exitCode": 0}])),
        "0 is not a valid error code",
    ),
    (
        "volume of nothing",
        job(volumes=[{"mountPath": "/a"}]),
        "either VolumeClaim or VolumeClaimName must be specified",
    ),
    (
        "two volumes at one place",
        job(volumes=[{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/a", "volumeClaimName": "y"}]),
        "duplicated mountPath",
    ),
    ("amount", queue(capability={"cpu": "-1"}), "spec.capability"),
    ("guarantee above capability", queue(capability={"cpu": "1"}, guarantee={"resource": {"cpu": "2"}}), "guarantee"),
    ("deserved above capability", queue(capability={"cpu": "1"}, deserved={"cpu": "1500m"}), "capability"),
    (
        "other spelling of a guarantee",
        queue(capability={"cpu": "1"}, guaranteed={"cpu": "2"}),
        "must be >= guarantee",
    ),
    ("amount in the other spelling", queue(guaranteed={"cpu": "-1"}), "spec.guarantee.resource"),
    ("guarantee without deserved", queue(deserved={"memory": "1Gi"}, guarantee={"resource": {"cpu": 2}}), "guarantee"),
    ("own parent", queue(parent="probe"), "queue probe cannot use itself as parent"),
    (
        "weights of a path",
        queue() | {"metadata": {"name": "probe", "annotations": {"volcano.sh/hierarchy": "root/a"}}},
        "must have the same length with",
    ),
    ("negative minimum", group(minTaskMember={"a": -1}), "must be greater than or equal to 0"),
    ("tiers of a group", group(networkTopology=TIERS), EXCLUSIVE),
    ("long name", cron("n" * 53), "cronJob name must be no more than 52 characters"),
    ("zone in the schedule", cron(schedule="TZ=UTC 0 0 * * *"), "schedule should not contain TZ or CRON_TZ"),
    ("local time", cron(timeZone="Local"), "timeZone can't be Local"),
    ("job of a cron job", cron(jobTemplate={"spec": spec(minAvailable=3)}), "total replicas in tasks (2)"),
    ("template", named(JOB_TEMPLATES, "probe", spec=spec(task(minAvailable=3))), "'minAvailable' is greater than"),
    ("unknown target", flow(("a", []), ("b", ["c"])), "jobflow Flow is not DAG: vertex is not defined: c"),
    ("flow on itself", flow(("a", ["a"])), "jobflow Flow is not DAG"),
]
GOOD: list[tuple[str, dict[str, Any]]] = [
    ("job", job()),
    (
        "job with everything",
        job(
            task(**partition(1, 2), policies=[EXIT]),
            task(name="other", dependsOn={"name": ["work"], "iteration": "any"}),
            plugins={"svc": [], "env": []},
            policies=[{"action": "AbortJob", "events": ["PodFailed", "PodEvicted"]}],
            volumes=[{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/b", "volumeClaimName": "x"}],
        ),
    ),
    (
        "queue",
        queue(
            capability={"cpu": 4, "nvidia.com/gpu": "8"},
            deserved={"cpu": "4000m"},
            guarantee={"resource": {"cpu": "0.5"}},
            parent="root",
        ),
    ),
    ("queue without deserved", queue(capability={"cpu": "4"}, guarantee={"resource": {"cpu": "4"}})),
    ("queue in the other spelling", queue(capability={"cpu": "4"}, guaranteed={"cpu": 4})),
    ("group", group(minTaskMember={"a": 0}, networkTopology={"mode": "soft", "highestTierAllowed": 2})),
    ("cron job", cron(timeZone="Etc/UTC")),
    ("flow", flow(("a", []), ("b", ["a"]))),
    ("hyper job", hyper({"name": "a", "replicas": 1, "templateSpec": spec()})),
]


def faults(value: dict[str, Any]) -> list[str]:
    kind = find(value["apiVersion"], value["kind"])
    assert kind is not None
    obj = decode(kind, copy.deepcopy(value)).obj
    apply_defaults(kind, obj)
    return [error.message() for error in validate(kind, obj)]


@pytest.mark.parametrize(("what", "value", "text"), BAD, ids=[each[0] for each in BAD])
def test_validation_refuses_what_a_policy_is_to_refuse(what: str, value: dict[str, Any], text: str) -> None:
    assert any(text in fault for fault in faults(value)), faults(value)


@pytest.mark.parametrize(("what", "value"), GOOD, ids=[each[0] for each in GOOD])
def test_validation_accepts_what_a_policy_is_to_accept(what: str, value: dict[str, Any]) -> None:
    assert not faults(value)


def test_every_policy_is_bound_and_looks_at_all_versions_of_its_kind() -> None:
    made = policies()
    names = {one["metadata"]["name"] for one in made if one["kind"] == "ValidatingAdmissionPolicy"}
    bound = {one["spec"]["policyName"] for one in made if one["kind"] == "ValidatingAdmissionPolicyBinding"}
    assert names == bound
    versions = {
        version
        for one in made
        if one["metadata"]["name"] == "jobs.unisono" and "matchConstraints" in one["spec"]
        for rule in one["spec"]["matchConstraints"]["resourceRules"]
        for version in rule["apiVersions"]
    }
    assert versions == {"v1alpha1", "v1beta1"}


def test_beside_the_webhook_policies_say_only_what_it_is_not_asked_about() -> None:
    alone = {one["metadata"]["name"] for one in policies()}
    beside = {one["metadata"]["name"] for one in policies(webhook=True)}
    assert alone - beside == {f"{policy.name}.unisono" for policy in POLICIES if policy.kind is not kinds.PODS}
    asked = {
        resource
        for one in webhooks(InstallOptions())
        for hook in one["webhooks"]
        for rule in hook["rules"]
        for resource in rule["resources"]
        if hook["failurePolicy"] == "Fail"
    }
    assert {policy.kind.plural for policy in POLICIES if policy.kind is not kinds.PODS} <= asked


@pytest.mark.parametrize(("what", "value", "words"), BAD, ids=[each[0] for each in BAD])
def test_the_webhook_refuses_what_is_left_to_it(what: str, value: dict[str, Any], words: str) -> None:
    group, _, version = value["apiVersion"].rpartition("/")
    request = {
        "uid": "u",
        "kind": {"group": group, "version": version, "kind": value["kind"]},
        "operation": "CREATE",
        "namespace": value["metadata"].get("namespace"),
        "object": value,
        "userInfo": {"username": "alice"},
    }
    review = {"apiVersion": ADMISSION_API_VERSION, "kind": "AdmissionReview", "request": request}
    view = Objects({kind: [] for kind in SEEN}, VirtualClock())
    answer = check(read(json.dumps(review).encode()), view)
    assert not answer["response"]["allowed"]
    assert words in answer["response"]["status"]["message"]


def test_texts_that_quote_nothing_are_no_expressions() -> None:
    validations = [one for made in policies() for one in made["spec"].get("validations", ())]
    fixed = [one["message"] for one in validations if "message" in one]
    assert len(fixed) > len(validations) / 3
    assert not [text for text in fixed if "\\" in text or "\n" in text]
    assert "spec.tasks: No task specified in job spec" in fixed


def test_pods_of_jobs_are_kept_from_the_policy_by_their_label() -> None:
    (policy,) = (
        one for one in policies() if one["metadata"]["name"] == "pods.unisono" and "validations" in one["spec"]
    )
    (selected,) = policy["spec"]["matchConstraints"]["objectSelector"]["matchExpressions"]
    assert selected == {"key": "volcano.sh/job-name", "operator": "DoesNotExist"}


def test_every_expression_can_be_read() -> None:
    variables = frozenset(("object", "oldObject", "request", "variables", "authorizer"))
    for policy in POLICIES:
        for rule in policy.rules:
            assert not rules.check_expression(rule.expression(), variables), rule.expression()
            assert not rules.check_expression(rule.message, variables), rule.message


# ---- pods


def pod(scheduler: str = "volcano", **notes: str) -> dict[str, Any]:
    meta = {"name": "p", "namespace": "default", "annotations": notes} if notes else {"name": "p"}
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


BUDGETS = st.one_of(
    st.sampled_from(["0", "1", "00", "007", "0%", "1%", "09%", "099%", "100%", "99%", "-1", "", "%", "1 ", "1" * 10]),
    st.text("0123456789%-. ", max_size=11),
    st.text(max_size=4),
)


@given(st.dictionaries(st.sampled_from([JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE]), BUDGETS, min_size=1))
def test_a_policy_refuses_the_budgets_that_the_embedded_server_refuses_in_the_same_words(notes: dict[str, str]) -> None:
    value = pod(**notes)
    obj = decode(kinds.PODS, copy.deepcopy(value)).obj
    told = ""
    try:
        check_disruption_budget(Request("CREATE", kinds.PODS, "default", "p", obj, None, "", ""), cast(Any, None))
    except Invalid as error:
        told = error.message
    broken = [rule for rule in budget_rules() if not rules.holds(rule.expression(), {"object": value}, rules.budget())]
    reasons = (messages.BUDGET_NUMBER, messages.BUDGET_SHARE, messages.several_budgets(notes))
    assert [why for why in reasons if why in told] == [
        why for why in reasons if any(why in rule.message for rule in broken)
    ], told


def test_a_policy_quotes_the_budget_that_it_refuses() -> None:
    value = {"object": pod(**{JDB_MIN_AVAILABLE: "none"})}
    (broken,) = (rule for rule in budget_rules() if not rules.holds(rule.expression(), value, rules.budget()))
    words = f'metadata.annotations[{JDB_MIN_AVAILABLE}]: invalid value <"none"> for {JDB_MIN_AVAILABLE}, '
    assert rules.holds(f"{broken.message} == {quoted(words + messages.BUDGET_NUMBER)}", value, rules.budget())


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        (pod(), False),
        (pod("default-scheduler", **{JDB_MIN_AVAILABLE: "none"}), False),
        (pod(**{"a": "b"}), False),
        (pod(**{JDB_MIN_AVAILABLE: "1"}), True),
    ],
    ids=["plain", "foreign", "other annotations", "budget"],
)
def test_a_policy_looks_only_at_pods_of_ours_with_a_budget(value: dict[str, Any], asked: bool) -> None:
    (policy,) = (
        one for one in policies() if one["metadata"]["name"] == "pods.unisono" and "validations" in one["spec"]
    )
    assert policy["spec"]["failurePolicy"] == "Ignore"
    conditions = [one["expression"] for one in policy["spec"]["matchConditions"]]
    assert all(rules.holds(one, {"object": value}, rules.budget()) for one in conditions) is asked


# ---- on a cluster


def path_of(value: dict[str, Any]) -> str:
    kind = find(value["apiVersion"], value["kind"])
    assert kind is not None
    return kind.path(value["metadata"].get("namespace"))


@pytest.fixture
async def guarded(cluster_turn: None) -> AsyncIterator[HttpClient]:
    """A cluster on which the policies have come into effect."""
    async with cluster() as client:
        for one in policies():
            status, answer = await send(client, "PATCH", place_of(one), one)
            assert status in (200, 201), answer
        for last in (BAD[0][1], BAD[-1][1], queue(parent="probe"), group(networkTopology=TIERS)):

            async def effective(value: dict[str, Any] = last) -> bool:
                status, _ = await send(client, "POST", path_of(value), value, dry=True)
                return status == 422

            await eventually(effective)
        try:
            yield client
        finally:
            for one in reversed(policies()):
                await send(client, "DELETE", place_of(one))


@needs_cluster
async def test_a_cluster_refuses_bad_objects_with_our_words_and_takes_good_ones(guarded: HttpClient) -> None:
    wrong = {}
    for what, value, text in BAD:
        message = refused(await send(guarded, "POST", path_of(value), value, dry=True))
        if text not in message:
            wrong[what] = message
    assert not wrong
    for what, value in GOOD:
        status, answer = await send(guarded, "POST", path_of(value), value, dry=True)
        assert status == 201, (what, answer)


@needs_cluster
async def test_a_cluster_holds_jobs_to_what_may_change(guarded: HttpClient) -> None:
    path = path_of(job())
    await send(guarded, "DELETE", f"{path}/probe")
    status, made = await send(guarded, "POST", path, job())
    assert status == 201, made

    async def put(**changes: Any) -> tuple[int, dict[str, Any]]:
        return await send(guarded, "PUT", f"{path}/probe", made | {"spec": made["spec"] | changes}, dry=True)

    try:
        assert "may not change fields" in refused(await put(queue="other"))
        assert "may not add or remove tasks" in refused(await put(tasks=[task(), task(name="more")]))
        assert (await put(tasks=[task(replicas=4)]))[0] == 200
    finally:
        await send(guarded, "DELETE", f"{path}/probe")


@needs_cluster
async def test_a_cluster_keeps_the_protected_queues(guarded: HttpClient) -> None:
    for name in ("root", "default"):
        body = named(kinds.QUEUES, name, spec={"weight": 1})
        await send(guarded, "POST", kinds.QUEUES.path(), body)
        answer = await send(guarded, "DELETE", kinds.QUEUES.path(None, name), dry=True)
        assert f"`{name}` queue can not be deleted" in refused(answer)


@needs_cluster
async def test_a_cluster_refuses_pods_with_a_bad_budget_and_lets_others_pass(guarded: HttpClient) -> None:
    path = kinds.PODS.path("default")
    for notes, told in (
        ({JDB_MIN_AVAILABLE: "none"}, messages.BUDGET_NUMBER),
        ({JDB_MAX_UNAVAILABLE: "100%"}, messages.BUDGET_SHARE),
        ({JDB_MIN_AVAILABLE: "1", JDB_MAX_UNAVAILABLE: "1"}, "multiple annotations"),
    ):
        assert told in refused(await send(guarded, "POST", path, pod(**notes), dry=True))
    for good in (pod(), pod(**{JDB_MIN_AVAILABLE: "50%"}), pod("default-scheduler", **{JDB_MIN_AVAILABLE: "none"})):
        status, answer = await send(guarded, "POST", path, good, dry=True)
        assert status == 201, answer


@needs_cluster
async def test_a_cluster_takes_every_example(guarded: HttpClient) -> None:
    seen = 0
    for file in sorted((REPOSITORY / "examples").rglob("*.yaml")):
        for document in expand_lists(load_all(file.read_text(), file=str(file))):
            value = json.loads(json.dumps(document.value))
            # Some are no objects, such as the machines of a simulation.
            kind = find(value.get("apiVersion", ""), value.get("kind", ""))
            if kind is None or kind not in {policy.kind for policy in POLICIES}:
                continue
            value["metadata"].setdefault("namespace", "default") if kind.namespaced else None
            status, answer = await send(guarded, "POST", path_of(value), value, dry=True)
            assert status == 201, (file.name, answer)
            seen += 1
    assert seen > 0
