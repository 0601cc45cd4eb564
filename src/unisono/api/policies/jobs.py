"""Rules of jobs, what makes jobs, pod groups and queues in CEL."""

from __future__ import annotations

from unisono.api import messages
from unisono.api.defaulting.kubeflow import ROOT_QUEUE
from unisono.api.groups.batch import POLICY_EVENTS
from unisono.api.keys import HIERARCHY, HIERARCHY_WEIGHTS, JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE
from unisono.api.messages import TOPOLOGY_EXCLUSIVE, UPDATE_SCOPE, protected_queue
from unisono.api.policies.rule import MANY, Rule, entries, given, number, text
from unisono.api.selecting import DEFAULT_QUEUE
from unisono.api.validation.job import ACTIONS, EVENTS, LONGEST_CRON_JOB, PLUGINS

# Rules of jobs and pods in CEL; ``variables.spec`` is the job's spec, wherever it stands.

_SPEC = "variables.spec"
_TASKS = entries(f"{_SPEC}.tasks")
_VOLUMES = entries(f"{_SPEC}.volumes")
_BUDGETS = (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE)
_NOTES = "object.metadata.annotations"

HAS_BUDGET = (
    f"object.spec.schedulerName == 'volcano' && has({_NOTES}) && "
    f"({' || '.join(f'{text(key)} in {_NOTES}' for key in _BUDGETS)})"
)
"""The pod is Volcano's and names a budget; hardly any does."""


def _list(names: tuple[str, ...]) -> str:
    return "[" + ", ".join(text(name) for name in names) + "]"


def job_rules(at: str) -> tuple[Rule, ...]:
    """The rules of a job's spec that stands at ``at``, such as ``spec``."""
    return (*_sizes(at), *_names(at), *_policies(at), *_parts(at))


def _of_task(at: str, field: str, good: str, message: str, *, creation: bool = False) -> Rule:
    """``good`` holds for every task ``t``; the message ends with the first one's name for which it does not."""
    named = "(has(t.name) ? t.name : '')"
    first_name = f"{_TASKS}.filter(t, !({good})).map(t, {named})[0]"
    return Rule(
        f"{_TASKS}.all(t, {good})",
        f"{text(f'{at}.tasks.{field}: {message} in task: ')} + {first_name}",
        creation=creation,
    )


def _sizes(at: str) -> tuple[Rule, ...]:
    replicas, minimum = number("t.replicas"), number("t.minAvailable")
    total = f"{_TASKS}.map(t, int({replicas})).sum()"
    policy = "t.partitionPolicy"
    size, count = number(f"{policy}.partitionSize"), number(f"{policy}.totalPartitions")
    return (
        Rule(f"size({_TASKS}) > 0", text(f"{at}.tasks: No task specified in job spec")),
        _of_task(at, "minAvailable", f"{minimum} <= {replicas}", "'minAvailable' is greater than 'replicas'"),
        Rule(
            f"size({_TASKS}) == 0 || int({number(f'{_SPEC}.minAvailable')}) <= {total}",
            text(f"{at}.minAvailable: job 'minAvailable' should not be greater than total replicas in tasks (")
            + f" + string({total}) + ')'",
        ),
        _of_task(
            at,
            "partitionPolicy.totalPartitions",
            f"!has({policy}) || {count} > 0",
            "'TotalPartitions' must be greater than 0",
        ),
        _of_task(
            at,
            "partitionPolicy.partitionSize",
            f"!has({policy}) || {size} > 0",
            "'PartitionSize' must be greater than 0",
        ),
        _of_task(
            at,
            "replicas",
            f"!has({policy}) || {replicas} == {count} * {size}",
            "'Replicas' are not equal to TotalPartitions*PartitionSize",
        ),
        exclusive_tier(f"{_SPEC}.networkTopology", f"{at}.networkTopology"),
    )


def exclusive_tier(path: str, at: str) -> Rule:
    """A tier of the network is named by number or by name."""
    return Rule(
        f"!has({path}) || !has({path}.highestTierAllowed) || !{given(f'{path}.highestTierName')}",
        text(f"{at}: {TOPOLOGY_EXCLUSIVE}"),
    )


def _names(at: str) -> tuple[Rule, ...]:
    same = "u, has(u.name) && u.name == t.name"
    depends = "t.dependsOn"
    return (
        _of_task(
            at,
            "name",
            f"size({_TASKS}) > {MANY} || !{given('t.name')} || {_TASKS}.exists_one({same})",
            "duplicated task name",
            creation=True,
        ),
        _of_task(
            at,
            "dependsOn.name",
            f"size({_TASKS}) > {MANY} || !has({depends}) || "
            f"{entries(f'{depends}.name')}.all(n, {_TASKS}.exists(u, has(u.name) && u.name == n))",
            "unknown task to depend on",
            creation=True,
        ),
        _of_task(
            at,
            "dependsOn.iteration",
            f"!has({depends}) || !has({depends}.iteration) || {depends}.iteration in ['', 'any', 'all']",
            "'iteration' must be any or all",
            creation=True,
        ),
    )


def _policies(at: str) -> tuple[Rule, ...]:
    """Each check once for the job's own policies and once for those of its tasks."""
    event = f"({given('p.event')} || size({entries('p.events')}) > 0)"
    unusable = tuple(sorted(set(POLICY_EVENTS) - set(EVENTS)))
    checks = (
        (f"!(has(p.exitCode) && {event})", "must not specify event and exitCode simultaneously"),
        (f"has(p.exitCode) || {event}", "either event and exitCode should be specified"),
        ("!has(p.exitCode) || p.exitCode != 0", "0 is not a valid error code"),
        (
            f"has(p.action) && p.action in {_list(ACTIONS)}",
            f"invalid policy action, valid actions are {', '.join(ACTIONS)}",
        ),
        (
            f"!((has(p.event) && p.event in {_list(unusable)}) || "
            f"{entries('p.events')}.exists(e, e in {_list(unusable)}))",
            f"invalid policy event, valid events are {', '.join(EVENTS)}",
        ),
    )
    own, of_task = entries(f"{_SPEC}.policies"), entries("t.policies")
    return tuple(
        rule
        for good, message in checks
        for rule in (
            Rule(f"{own}.all(p, {good})", text(f"{at}.policies: {message}"), creation=True),
            _of_task(at, "policies", f"{of_task}.all(p, {good})", message, creation=True),
        )
    )


def _parts(at: str) -> tuple[Rule, ...]:
    claim, name = "has(v.volumeClaim)", given("v.volumeClaimName")
    plugins = f"{_SPEC}.plugins"
    plugin_names = _list(PLUGINS)
    return (
        Rule(
            f"!has({plugins}) || {plugins}.all(p, p in {plugin_names})",
            text(f"{at}.plugins: unable to find job plugin: ")
            + f" + {plugins}.filter(p, !(p in {plugin_names}))[0] + "
            + text(f"; plug-ins are {', '.join(PLUGINS)}"),
            creation=True,
        ),
        Rule(
            f"{_VOLUMES}.all(v, {claim} || {name})",
            text(f"{at}.volumes: either VolumeClaim or VolumeClaimName must be specified"),
            creation=True,
        ),
        Rule(
            f"{_VOLUMES}.all(v, !({claim} && {name}))",
            text(f"{at}.volumes: conflict: If you want to use an existing PVC, just specify VolumeClaimName."),
            creation=True,
        ),
        Rule(
            f"size({_VOLUMES}) > {MANY} || "
            f"{_VOLUMES}.all(v, !has(v.mountPath) || {_VOLUMES}.exists_one(w, has(w.mountPath) "
            "&& w.mountPath == v.mountPath))",
            text(f"{at}.volumes: duplicated mountPath"),
            creation=True,
        ),
    )


def job_change_rules() -> tuple[Rule, ...]:
    """What an update may not do; the webhook compares every field, these compare what matters most."""
    old = "oldObject.spec"
    same = " && ".join(
        f"(!has({old}.{field}) || (has(object.spec.{field}) && object.spec.{field} == {old}.{field}))"
        for field in ("queue", "schedulerName")
    )
    return (
        Rule(
            f"size({_TASKS}) == size({entries(f'{old}.tasks')})",
            text("spec.tasks: job updates may not add or remove tasks"),
        ),
        Rule(same, text(f"spec: {UPDATE_SCOPE}")),
    )


def budget_rules() -> tuple[Rule, ...]:
    """A budget is a positive integer or a percentage, and there is only one."""
    rules = []
    for key in _BUDGETS:
        value = f"{_NOTES}[{text(key)}]"
        absent = f"!({text(key)} in {_NOTES})"
        share = f"{value}.matches('^[0-9]{{1,9}}%$')"
        good_share = f"{value}.matches('^0*[1-9][0-9]?%$')"
        good_number = f"({value}.matches('^[0-9]{{1,9}}$') && {value}.matches('[1-9]'))"
        where = text(f'metadata.annotations[{key}]: invalid value <"')
        for fine, why in (
            (f"{share} || {good_number}", messages.BUDGET_NUMBER),
            (f"!{share} || {good_share}", messages.BUDGET_SHARE),
        ):
            rest = text(f'"> for {key}, {why}')
            rules.append(Rule(f"{absent} || {fine}", f"{where} + {value} + {rest}"))
    both = " && ".join(f"{text(key)} in {_NOTES}" for key in _BUDGETS)
    rules.append(Rule(f"!({both})", text(f"metadata.annotations: {messages.several_budgets(_BUDGETS)}")))
    return tuple(rules)


# Rules of cron jobs, job flows and hyper jobs in CEL.


def cron_job_rules() -> tuple[Rule, ...]:
    """Name, schedule and time zone."""
    spec = "object.spec"
    return (
        Rule(
            f"size(object.metadata.name) <= {LONGEST_CRON_JOB}",
            text(
                "metadata.name: cronJob name must be no more than 52 characters to accommodate job name suffix "
                "(max 63 total)"
            ),
        ),
        Rule(
            f"!has({spec}.schedule) || !{spec}.schedule.contains('TZ=')",
            text(
                "spec.schedule: schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field"
            ),
        ),
        Rule(
            f"!has({spec}.timeZone) || {spec}.timeZone != ''",
            text("spec.timeZone: timeZone must be nil or non-empty string, got empty string"),
        ),
        Rule(
            f"!has({spec}.timeZone) || {spec}.timeZone.lowerAscii() != 'local'",
            text("spec.timeZone: timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"),
        ),
    )


def job_flow_rules() -> tuple[Rule, ...]:
    """Flows depend on flows of the same JobFlow, and not on themselves; longer circles are the webhook's to find."""
    flows, depends = entries("variables.spec.flows"), "f.dependsOn"
    targets = f"(has({depends}) ? {entries(f'{depends}.targets')} : [])"
    targets_exist = f"{targets}.all(n, {flows}.exists(g, g.name == n))"
    missing = (
        f"{flows}.filter(f, !({targets_exist}))[0].dependsOn.targets.filter(n, !{flows}.exists(g, g.name == n))[0]"
    )
    return (
        Rule(
            f"size({flows}) > {MANY} || {flows}.all(f, {targets_exist})",
            text("spec.flows: jobflow Flow is not DAG: vertex is not defined: ") + f" + {missing}",
        ),
        Rule(f"{flows}.all(f, !(f.name in {targets}))", text("spec.flows: jobflow Flow is not DAG")),
    )


def hyper_job_rules() -> tuple[Rule, ...]:
    """Replicated jobs have names of their own, and tasks."""
    jobs, spec = entries("variables.spec.replicatedJobs"), "j.templateSpec"
    return (
        Rule(
            f"size({jobs}) > {MANY} || {jobs}.all(j, !{given('j.name')} || "
            f"{jobs}.exists_one(i, has(i.name) && i.name == j.name))",
            text("spec.replicatedJobs: names of replicated jobs must differ"),
        ),
        Rule(
            f"{jobs}.all(j, !has({spec}) || size({entries(f'{spec}.tasks')}) > 0)",
            text("spec.replicatedJobs.templateSpec.tasks: No task specified in job spec"),
        ),
    )


_OFFICIAL, _ALIAS = "object.spec.guarantee", "object.spec.guaranteed"
QUEUE_VARIABLES = {
    "spec": "object.spec",
    "guarantee": (
        f"has({_OFFICIAL}) ? (has({_OFFICIAL}.resource) ? {_OFFICIAL}.resource : {{}}) : "
        f"has({_ALIAS}) ? {_ALIAS} : {{}}"
    ),
}
"""Of ``queue_rules``; a guarantee has two spellings."""


def pod_group_rules() -> tuple[Rule, ...]:
    """Sizes and topology of a gang."""
    minimum, groups = f"{_SPEC}.minTaskMember", entries(f"{_SPEC}.subGroupPolicy")
    below = "g.networkTopology"
    return (
        Rule(
            f"!has({minimum}) || {minimum}.all(t, {minimum}[t] >= 0)",
            text("spec.minTaskMember: must be greater than or equal to 0"),
        ),
        exclusive_tier(f"{_SPEC}.networkTopology", "spec.networkTopology"),
        Rule(
            f"{groups}.all(g, !has({below}) || !has({below}.highestTierAllowed) || "
            f"!{given(f'{below}.highestTierName')})",
            text(f"spec.subGroupPolicy.networkTopology: {TOPOLOGY_EXCLUSIVE}"),
        ),
    )


def queue_rules() -> tuple[Rule, ...]:
    """Amounts and their order, the parent, the hierarchy annotations, and what stays as it is in the root queue."""
    name = "object.metadata.name"
    amounts = {
        "capability": (f"has({_SPEC}.capability)", f"{_SPEC}.capability"),
        "deserved": (f"has({_SPEC}.deserved)", f"{_SPEC}.deserved"),
        "guarantee": ("(size(variables.guarantee) > 0)", "variables.guarantee"),
    }
    return (
        *(_amounts(title, *place) for title, place in amounts.items()),
        _ordered(amounts, "guarantee", "deserved"),
        _ordered(amounts, "guarantee", "capability"),
        _ordered(amounts, "deserved", "capability"),
        _guaranteed(amounts),
        Rule(
            f"!has({_SPEC}.parent) || {_SPEC}.parent != {name}",
            f"'spec.parent: queue ' + {name} + ' cannot use itself as parent'",
        ),
        _hierarchy(),
        _root(),
    )


_Amounts = dict[str, tuple[str, str]]


def _parsed(place: str, key: str = "r") -> str:
    return f"quantity(string({place}[{key}]))"


def _amounts(title: str, there: str, place: str) -> Rule:
    shown = "spec.guarantee.resource" if title == "guarantee" else f"spec.{title}"
    return Rule(
        f"!{there} || {place}.all(r, isQuantity(string({place}[r])) && !{_parsed(place)}.isLessThan(quantity('0')))",
        text(f"{shown}: every amount must be a quantity such as 500m or 16Gi, and not below 0"),
    )


def _good(place: str) -> str:
    return f"isQuantity(string({place}[r]))"


def _ordered(amounts: _Amounts, least: str, most: str) -> Rule:
    """What is in both maps is in order; amounts that are none are told by their own rule."""
    (low_there, low), (high_there, high) = amounts[least], amounts[most]
    # A guarantee is measured by deserved where there is one, and else by the capability.
    instead = "" if (least, most) != ("guarantee", "capability") else f"has({_SPEC}.deserved) || "
    smaller = f"{_parsed(high)}.isLessThan({_parsed(low)})"
    bad = f"(r in {high}) && {_good(low)} && {_good(high)} && {smaller}"
    first = f"{low}.filter(r, {bad})[0]"
    if least == "guarantee":
        message = f"'spec.{most}[' + {first} + ']: {most} must be >= guarantee'"
    else:
        message = f"'spec.deserved[' + {first} + ']: deserved must be <= capability'"
    return Rule(f"{instead}!{low_there} || !{high_there} || {low}.all(r, !({bad}))", message)


def _guaranteed(amounts: _Amounts) -> Rule:
    (low_there, low), (high_there, high) = amounts["guarantee"], amounts["deserved"]
    return Rule(
        f"!{low_there} || !{high_there} || size({high}) == 0 || {low}.all(r, r in {high})",
        f"'spec.deserved[' + {low}.filter(r, !(r in {high}))[0] + ']: deserved must be >= guarantee'",
    )


def _hierarchy() -> Rule:
    notes = "object.metadata.annotations"
    path, weights = (f"({text(key)} in {notes} ? {notes}[{text(key)}] : '')" for key in (HIERARCHY, HIERARCHY_WEIGHTS))
    return Rule(
        f"!has({notes}) || size({path}.split('/')) == size({weights}.split('/'))",
        text(f"metadata.annotations: {HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}"),
    )


def _root() -> Rule:
    same = " && ".join(
        f"has(object.spec.{field}) == has(oldObject.spec.{field}) && "
        f"(!has(object.spec.{field}) || object.spec.{field} == oldObject.spec.{field})"
        for field in ("capability", "deserved", "guarantee")
    )
    return Rule(
        f"object.metadata.name != {text(ROOT_QUEUE)} || request.operation != 'UPDATE' || ({same})",
        text("spec: root queue's resource attributes (capability, deserved, guarantee) cannot be modified"),
    )


def queue_removal_rules() -> tuple[Rule, ...]:
    """``root`` and ``default`` stay."""
    return tuple(
        Rule(f"oldObject.metadata.name != {text(name)}", text(protected_queue(name)))
        for name in (DEFAULT_QUEUE, ROOT_QUEUE)
    )
