"""Rules of jobs and pods in CEL; ``variables.spec`` is the job's spec, wherever it stands."""

from __future__ import annotations

from unisono.api import messages
from unisono.api.batch import POLICY_EVENTS
from unisono.api.keys import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE
from unisono.api.messages import TOPOLOGY_EXCLUSIVE, UPDATE_SCOPE
from unisono.api.policies.rule import MANY, Rule, entries, given, number, text
from unisono.api.validation.job import PLUGINS
from unisono.api.validation.policies import ACTIONS, EVENTS

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
    found = f"{_TASKS}.filter(t, !({good})).map(t, {named})[0]"
    return Rule(
        f"{_TASKS}.all(t, {good})", f"{text(f'{at}.tasks.{field}: {message} in task: ')} + {found}", creation=creation
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
    known = _list(PLUGINS)
    return (
        Rule(
            f"!has({plugins}) || {plugins}.all(p, p in {known})",
            text(f"{at}.plugins: unable to find job plugin: ")
            + f" + {plugins}.filter(p, !(p in {known}))[0] + "
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
