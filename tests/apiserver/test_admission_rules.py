"""What admission adds and refuses in view of other objects."""

from __future__ import annotations

import pytest

from support.backends import (
    DELETE,
    OPTIONS,
    group_body,
    job_body,
    names,
    namespace_body,
    opened,
    pod_body,
    queue_body,
    read,
    value,
)
from unisono.api.annotations import (
    CONFIGURATION_PARTS,
    CYCLES_LEASE,
    ENFORCED_QUEUE_FIELDS,
    HOT_SPARES,
    MIN_RUN_TIME,
    ONE_OF,
    RESERVATION,
)
from unisono.api.kinds import (
    BUDGETS,
    CUSTOM_RESOURCE_DEFINITIONS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODE_CHECKS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
)
from unisono.apiserver.admission import Admission, Request, Settings
from unisono.apiserver.failures import forbidden
from unisono.errors import ApiError, Invalid


@pytest.fixture
async def service():
    async with opened() as backend:
        yield backend.service


async def made(service, kind, body):
    namespace = body["metadata"].get("namespace")
    return value((await service.create(kind, namespace, body, OPTIONS)).object)


async def set_state(service, queue, state):
    await service.patch(QUEUES, None, queue, {"status": {"state": state}}, "merge", OPTIONS, "status")


def priority_class(name, number=5, **fields):
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": number,
        **fields,
    }


async def refused(attempt, code, message):
    with pytest.raises(ApiError) as caught:
        await attempt
    assert message in caught.value.message
    assert caught.value.code == code
    return caught.value


# --- jobs and pod groups in queues ---------------------------------------------------------------------------


async def test_a_job_goes_to_the_default_queue(service):
    assert (await made(service, JOBS, job_body("j")))["spec"]["queue"] == "default"


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown"])
async def test_a_queue_that_is_not_open_takes_nothing(service, state):
    await made(service, QUEUES, queue_body("q"))
    await set_state(service, "q", state)
    error = await refused(
        made(service, JOBS, job_body("j", queue="q")),
        422,
        f"can only submit job to queue with state `Open`, queue `q` status is `{state}`",
    )
    assert error.details["causes"][0]["field"] == "spec.queue"
    await refused(
        made(service, POD_GROUPS, group_body("g", queue="q")),
        422,
        f"can only submit PodGroup to queue with state `Open`, queue `q` status is `{state}`",
    )
    assert await names(service, JOBS) == await names(service, POD_GROUPS) == []
    await set_state(service, "q", "Open")
    await made(service, JOBS, job_body("j", queue="q"))


async def test_a_queue_that_does_not_exist(service):
    text = 'spec.queue: Invalid value: "nope": unable to find job queue: queue.scheduling.volcano.sh "nope" not found'
    await refused(made(service, JOBS, job_body("j", queue="nope")), 422, text)
    text = 'unable to find queue: queue.scheduling.volcano.sh "nope" not found'
    await refused(made(service, POD_GROUPS, group_body("g", queue="nope")), 422, text)


async def test_a_queue_that_nobody_has_opened_yet_is_open(service):
    queue = await made(service, QUEUES, queue_body("q"))
    assert "state" not in queue.get("status", {})
    await made(service, JOBS, job_body("j", queue="q"))


async def test_only_leaves_take_jobs(service):
    await made(service, QUEUES, queue_body("parent"))
    await made(service, QUEUES, queue_body("child", parent="parent"))
    await refused(made(service, JOBS, job_body("j", queue="root")), 422, "can not submit job to root queue")
    text = "can only submit job to leaf queue, queue `parent` has 1 child queues"
    await refused(made(service, JOBS, job_body("j", queue="parent")), 422, text)
    await made(service, JOBS, job_body("j", queue="child"))


async def test_closing_a_queue_does_not_disturb_its_jobs(service):
    await made(service, QUEUES, queue_body("q"))
    await made(service, JOBS, job_body("j", queue="q"))
    await set_state(service, "q", "Closed")
    await service.patch(JOBS, "default", "j", {"spec": {"minAvailable": 1}}, "merge", OPTIONS)


async def test_a_namespace_names_the_queue_of_its_groups(service):
    await made(service, QUEUES, queue_body("team"))
    annotations = {"scheduling.volcano.sh/queue-name": "team"}
    await made(service, NAMESPACES, namespace_body("ns", annotations=annotations))
    assert (await made(service, POD_GROUPS, group_body("a", "ns")))["spec"]["queue"] == "team"
    explicit = await made(service, POD_GROUPS, group_body("b", "ns", queue="default"))
    assert explicit["spec"]["queue"] == "team", "default is what an absent queue becomes, so both count as absent"
    assert (await made(service, POD_GROUPS, group_body("c")))["spec"]["queue"] == "default"


# --- queues ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["default", "root"])
async def test_the_first_queues_stay(service, name):
    await refused(service.delete(QUEUES, None, name, DELETE), 403, f"`{name}` queue can not be deleted")


async def test_a_queue_with_children_stays(service):
    await made(service, QUEUES, queue_body("p"))
    for child in ("b", "a"):
        await made(service, QUEUES, queue_body(child, parent="p"))
    text = "queue p can not be deleted because it has 2 child queues: a, b"
    await refused(service.delete(QUEUES, None, "p", DELETE), 403, text)
    for name in ("a", "b", "p"):
        await service.delete(QUEUES, None, name, DELETE)


async def test_a_queue_in_use_stays_only_where_that_is_asked_for():
    used = {"status": {"allocated": {"pods": "3"}}}
    for enabled in (False, True):
        admission = Admission(Settings(enable_queue_allocated_pods_check=enabled))
        async with opened(admission=admission) as backend:
            service = backend.service
            await made(service, QUEUES, queue_body("q"))
            await service.patch(QUEUES, None, "q", used, "merge", OPTIONS, "status")
            attempt = service.delete(QUEUES, None, "q", DELETE)
            if enabled:
                await refused(attempt, 403, "queue q cannot be deleted because it has allocated Pods: 3")
            else:
                await attempt


async def test_root_is_protected(service):
    change = {"spec": {"capability": {"cpu": "1"}}}
    text = "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
    await refused(service.patch(QUEUES, None, "root", change, "merge", OPTIONS), 422, text)
    await refused(set_state(service, "root", "Closed"), 422, "root queue can not be closed")
    await set_state(service, "root", "Open")


@pytest.mark.parametrize(
    ("name", "parent", "message"),
    [
        ("new", "new", "queue new cannot use itself as parent"),
        ("new", "nobody", 'queue.scheduling.volcano.sh "nobody" not found'),
        ("new", "q5", "queue new exceeds the maximum allowed depth of 5"),
        ("new", "busy", "queue busy cannot be the parent queue of queue new because it has allocated Pods: 2"),
    ],
)
async def test_parents_that_are_refused(service, name, parent, message):
    for depth in range(1, 6):
        above = {"parent": f"q{depth - 1}"} if depth > 1 else {}
        await made(service, QUEUES, queue_body(f"q{depth}", **above))
    await made(service, QUEUES, queue_body("busy"))
    used = {"status": {"allocated": {"pods": 2}}}
    await service.patch(QUEUES, None, "busy", used, "merge", OPTIONS, "status")
    error = await refused(made(service, QUEUES, queue_body(name, parent=parent)), 422, message)
    assert error.details["causes"][0]["field"] == "spec.parent"


async def test_a_queue_cannot_be_put_below_itself(service):
    await made(service, QUEUES, queue_body("a"))
    await made(service, QUEUES, queue_body("b", parent="a"))
    await made(service, QUEUES, queue_body("c", parent="b"))
    change = {"spec": {"parent": "c"}}
    await refused(service.patch(QUEUES, None, "a", change, "merge", OPTIONS), 422, "because c is below a")


@pytest.mark.parametrize(
    ("child", "message"),
    [
        ({"capability": {"cpu": "10"}}, None),
        ({"capability": {"cpu": "11"}}, "queue new capability[cpu]=11 exceeds its ancestor's capability=10"),
        ({"capability": {"memory": "1Ti"}}, None),
        ({"guarantee": {"resource": {"cpu": "2"}}, "deserved": {"cpu": "2"}}, None),
        ({"deserved": {"cpu": "4"}}, None),
        (
            {"deserved": {"cpu": "5"}},
            "parent queue parent validation failed: sum of children's deserved (cpu: 9) exceeds parent's deserved "
            "limit (cpu: 8)",
        ),
        (
            {"guarantee": {"resource": {"cpu": "3"}}, "deserved": {"cpu": "3"}},
            "sum of children's guarantee (cpu: 5) exceeds parent's guarantee limit (cpu: 4)",
        ),
        ({"deserved": {"memory": "1"}}, "sum of children's deserved (cpu: 4, memory: 1) exceeds"),
    ],
)
async def test_a_family_shares_what_its_parent_has(service, child, message):
    parent = {"capability": {"cpu": 10}, "deserved": {"cpu": "8"}, "guarantee": {"resource": {"cpu": "4"}}}
    await made(service, QUEUES, queue_body("parent", **parent))
    first = {"deserved": {"cpu": "4"}, "guarantee": {"resource": {"cpu": "2"}}}
    await made(service, QUEUES, queue_body("first", parent="parent", **first))
    attempt = made(service, QUEUES, queue_body("new", parent="parent", **child))
    if message is None:
        await attempt
    else:
        await refused(attempt, 422, message)


async def test_a_parent_cannot_shrink_below_its_children(service):
    await made(service, QUEUES, queue_body("p", capability={"cpu": "10"}, deserved={"cpu": "8"}))
    await made(service, QUEUES, queue_body("c", parent="p", capability={"cpu": "9"}, deserved={"cpu": "6"}))
    await made(service, QUEUES, queue_body("g", parent="c", capability={"cpu": "9"}))
    smaller = {"spec": {"capability": {"cpu": "8"}}}
    text = "queue p capability[cpu]=8 is smaller than its descendants' max capability=9"
    await refused(service.patch(QUEUES, None, "p", smaller, "merge", OPTIONS), 422, text)
    less = {"spec": {"deserved": {"cpu": "5"}}}
    text = "queue p validation failed: sum of children's deserved (cpu: 6) exceeds parent's deserved limit (cpu: 5)"
    await refused(service.patch(QUEUES, None, "p", less, "merge", OPTIONS), 422, text)
    await service.patch(QUEUES, None, "p", {"spec": {"weight": 7}}, "merge", OPTIONS)


async def test_children_of_root_are_free(service):
    await made(service, QUEUES, queue_body("q", capability={"cpu": "1000"}, deserved={"cpu": "1000"}))


# --- pods --------------------------------------------------------------------------------------------------------


async def test_priority_comes_from_the_class(service):
    await made(service, PRIORITY_CLASSES, priority_class("high", 1000, preemptionPolicy="Never"))
    pod = await made(service, PODS, pod_body("p", spec_priorityClassName="high"))
    assert (pod["spec"]["priority"], pod["spec"]["preemptionPolicy"]) == (1000, "Never")
    plain = await made(service, PODS, pod_body("q"))
    assert (plain["spec"]["priority"], plain["spec"]["preemptionPolicy"]) == (0, "PreemptLowerPriority")


async def test_priority_comes_from_the_global_default(service):
    await made(service, PRIORITY_CLASSES, priority_class("usual", 7, globalDefault=True))
    pod = await made(service, PODS, pod_body("p"))
    assert (pod["spec"]["priority"], pod["spec"]["priorityClassName"]) == (7, "usual")
    text = "PriorityClass usual is already marked as default. Only one default can exist"
    await refused(made(service, PRIORITY_CLASSES, priority_class("more", globalDefault=True)), 403, text)


async def test_a_class_that_does_not_exist(service):
    text = 'pods "p" is forbidden: no PriorityClass with name nope was found'
    await refused(made(service, PODS, pod_body("p", spec_priorityClassName="nope")), 403, text)
    assert await names(service, PODS) == []


@pytest.mark.parametrize("field", [{"spec_priority": 5}, {"spec_preemptionPolicy": "Never"}])
async def test_numbers_that_contradict_the_class(service, field):
    await refused(made(service, PODS, pod_body("p", **field)), 403, "must not be provided in pod spec")


async def test_system_classes(service):
    await refused(service.delete(PRIORITY_CLASSES, None, "system-node-critical", DELETE), 403, "cannot be deleted")
    with pytest.raises(Invalid, match="'system-' prefix"):
        await made(service, PRIORITY_CLASSES, priority_class("system-mine"))


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"min-available": "2"}, None),
        ({"max-unavailable": "50%"}, None),
        ({"min-available": "0"}, "it must be a positive integer"),
        ({"min-available": "-3"}, "it must be a positive integer"),
        ({"max-unavailable": "100%"}, "it must be a valid percentage which between 1% ~ 99%"),
        ({"min-available": "1", "max-unavailable": "1"}, "not allow configure multiple annotations"),
    ],
)
async def test_disruption_budgets(service, annotations, message):
    keyed = {f"volcano.sh/jdb-{key}": text for key, text in annotations.items()}
    attempt = made(service, PODS, pod_body("p", spec_schedulerName="volcano", annotations=keyed))
    if message is None:
        await attempt
    else:
        await refused(attempt, 422, message)
        await made(service, PODS, pod_body("q", annotations=keyed))


# --- namespaces, definitions, further rules ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_namespaces_that_stay(service, name):
    text = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    await refused(service.delete(NAMESPACES, None, name, DELETE), 403, text)


async def test_definitions_of_the_served_kinds_are_there_and_stay(service):
    found = await read(service, CUSTOM_RESOURCE_DEFINITIONS, None, "jobs.batch.volcano.sh")
    conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert found["status"]["storedVersions"] == ["v1alpha1"]
    await refused(
        service.delete(CUSTOM_RESOURCE_DEFINITIONS, None, "jobs.batch.volcano.sh", DELETE),
        403,
        "the kind is built into this server",
    )


async def test_further_rules_can_be_added():
    def no_bob(request: Request, view):
        if request.user == "bob":
            raise forbidden(request.kind, request.name, "bob may not")

    def label(request: Request, view):
        if request.operation == "CREATE":
            request.object.metadata.labels = {"added": "yes"}

    admission = Admission(mutating={"pods": [label]}, checking={"pods": [no_bob]})
    async with opened(admission=admission) as backend:
        pod = await made(backend.service, PODS, pod_body("p"))
        assert pod["metadata"]["labels"] == {"added": "yes"}
        assert pod["spec"]["priority"] == 0, "the server's own rules still hold"
        client = backend.client(user="bob")
        with pytest.raises(ApiError, match="bob may not"):
            await client.delete(PODS, "p", "default")
        assert await names(backend.service, PODS) == ["p"]


async def test_a_limit_on_pods_is_no_warning(service):
    """The scheduler counts them."""
    assert not (await service.create(QUEUES, None, queue_body("few", capability={"pods": 3}), OPTIONS)).warnings
    assert (await set_state(service, "few", "Open")) is None


async def test_fields_that_the_scheduler_does_not_enforce_are_warnings(service):
    """The queue is stored all the same; without a word of a scheduler nothing is said."""
    body = queue_body("org", deserved={"cpu": "4"})
    assert (await service.create(QUEUES, None, body, OPTIONS)).warnings == []
    meta = {"name": CYCLES_LEASE, "namespace": "kube-system", "annotations": {ENFORCED_QUEUE_FIELDS: "weight"}}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
    await made(service, LEASES, lease)
    told = (await service.create(QUEUES, None, queue_body("team", deserved={"cpu": "4"}, weight=3), OPTIONS)).warnings
    assert told == ["spec.deserved: the scheduler's configuration does not enforce it; list the plug-in capacity"]
    patch = {"spec": {"priority": 7}}
    told = (await service.patch(QUEUES, None, "team", patch, "merge", OPTIONS)).warnings
    assert [text.partition(":")[0] for text in told] == ["spec.deserved", "spec.priority"]
    state = {"status": {"state": "Closed"}}
    assert (await service.patch(QUEUES, None, "team", state, "merge", OPTIONS, "status")).warnings == []


@pytest.mark.parametrize(
    ("kind", "body", "told"),
    [
        (JOBS, {"metadata": {"annotations": {ONE_OF: "a=b"}}}, f"metadata.annotations[{ONE_OF}]: one-of"),
        (
            JOBS,
            {"spec": {"tasks": [{"replicas": 1, "template": {"metadata": {"annotations": {RESERVATION: "r"}}}}]}},
            f"spec.tasks[0].template.metadata.annotations[{RESERVATION}]: calendar",
        ),
        (JOBS, {"spec": {"networkTopology": {"mode": "hard"}}}, "spec.networkTopology: network-topology-aware"),
        (QUEUES, {"metadata": {"annotations": {HOT_SPARES: "1"}}}, f"metadata.annotations[{HOT_SPARES}]: hot-spares"),
        (BUDGETS, {"spec": {"users": ["a"], "amounts": {"cpu": "1"}, "mode": "Soft"}}, "kind Budget: budgets"),
        (BUDGETS, {"spec": {"users": ["a"], "amounts": {"cpu": "1"}, "mode": "Hard"}}, ""),
        (NODE_CHECKS, {"spec": {"nodes": ["*"], "command": ["true"]}}, "kind NodeCheck: node-checks"),
        (JOBS, {"metadata": {"annotations": {MIN_RUN_TIME: "1h"}}}, ""),
    ],
)
async def test_bounds_that_the_scheduler_does_not_keep_are_warnings(service, kind, body, told):
    """Whatever states them, by what the scheduler tells of its actions and plug-ins; without a word nothing is said."""
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    tasks = body.get("spec", {}).get("tasks", [{"replicas": 1, "template": {}}])
    spec = {**body.get("spec", {}), "tasks": [{**one, "template": template | one["template"]} for one in tasks]}
    meta = {"name": "x", **body.get("metadata", {})}
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}
    whole["spec"] = spec if kind is JOBS else body.get("spec", {})
    space = "default" if kind.namespaced else None
    assert (await service.create(kind, space, whole, OPTIONS)).warnings == []
    notes = {CONFIGURATION_PARTS: "allocate,gang,predicates"}
    lease = {"name": CYCLES_LEASE, "namespace": "kube-system", "annotations": notes}
    await made(service, LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": lease})
    whole["metadata"] = meta | {"name": "y"}
    found = (await service.create(kind, space, whole, OPTIONS)).warnings
    where, _, plugin = told.rpartition(": ")
    sentence = f"{where}: the scheduler's configuration does not enforce it; list the plug-in {plugin}"
    assert found == ([sentence] if told else [])
