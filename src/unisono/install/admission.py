"""Webhook configurations and admission policies: which requests are shown to the webhook, and what CEL can say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from unisono.api import kinds
from unisono.api.annotations import ADMITTED_QUEUES, USER
from unisono.api.groups.admission_registration import VALIDATING_WEBHOOKS
from unisono.api.keys import CONFIG_MAP_NAMES, CONFIG_MAP_SUFFIX, KUEUE_QUEUE
from unisono.api.kind import Kind
from unisono.api.kind_families import CRON_JOBS, FLEET_KINDS, FLOW_KINDS, HYPER_JOBS, JOB_FLOWS, KUBEFLOW_KINDS
from unisono.api.kinds import JOBS, PODS
from unisono.api.policies import POLICIES, RIGHTS, RUNNING, Policy
from unisono.api.policies.rule import PLACED, Rule, place_rules
from unisono.api.seal import sealed
from unisono.install.workloads import InstallOptions, labels
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.paths import steps
from unisono.jobkinds.registry import DISPATCHED, DIVIDED, FAMILIES, foreign
from unisono.jobkinds.workloads import PODS_ALONE
from unisono.scheduler.settings import INSTALLED_NAME

# Match conditions: requests that neither a webhook nor a policy needs to see, in CEL.

_Tree: TypeAlias = dict[tuple[str, bool], Any]
_SAID = tuple(f"metadata.annotations[{key}]" for key in (ADMITTED_QUEUES, USER))
_OLD, _NEW = "oldObject", "object"


def changed(*, annotations: bool = False) -> dict[str, Any]:
    """The object is new or going, or its content changes.

    Statuses of kinds without a subresource for them, finalizers and labels are written far more often than specs.

    Args:
        annotations: they say something as well.
    """
    parts = ["request.operation != 'UPDATE'", _differs("spec")]
    if annotations:
        parts.append(_differs("metadata.annotations"))
    return {"name": "changed", "expression": " || ".join(parts)}


def naming(kinds: Iterable[JobKind]) -> dict[str, Any]:
    """The object names a queue somewhere, or says whose it is or what its author was let use."""
    tree: _Tree = {}
    for place in _places(kinds):
        at = tree
        for step in steps(place):
            at = at.setdefault(step, {})
    return {"name": "names-a-queue", "expression": _leads_anywhere(tree, _NEW, 0)}


def renaming(kinds: Iterable[JobKind]) -> dict[str, Any]:
    """It is new, or what may name a queue changes: others annotate it far more often."""
    ways = [steps(place) for place in _places(kinds)]
    content = dict.fromkeys(root for (root, _), *_ in ways if root != "metadata")
    own = (way for way in ways if way[0][0] == "metadata")
    noted = (f"{_text(_NEW, of, key)} != {_text(_OLD, of, key)}" for _, (of, _), (key, _) in own)
    parts = ("request.operation != 'UPDATE'", *map(_differs, content), *noted)
    return {"name": "names-another", "expression": " || ".join(parts)}


def _places(kinds: Iterable[JobKind]) -> Iterable[str]:
    every = (place for kind in kinds for place in (*kind.places, *kind.labelled(KUEUE_QUEUE), *_SAID))
    return dict.fromkeys(every)


def not_of_operators() -> dict[str, Any]:
    """Not what an operator makes for another object, which was looked at itself."""
    user = "request.userInfo.username"
    made_by = f"({user}.startsWith('system:serviceaccount:') || {user} == 'system:kube-controller-manager')"
    owned = f"has({_NEW}.metadata.ownerReferences) && {_NEW}.metadata.ownerReferences.exists"
    controlled = f"{owned}(o, has(o.controller) && o.controller)"
    return {"name": "not-of-an-operator", "expression": f"!({made_by} && {controlled})"}


def not_of_components(namespace: str) -> dict[str, Any]:
    """Components of the installation act for the authors of what they make objects of."""
    group = f"system:serviceaccounts:{namespace}"
    return {"name": "not-of-a-component", "expression": f"!('{group}' in request.userInfo.groups)"}


def staying() -> dict[str, Any]:
    """The object is not on its way out: one that is must get there, whatever it looks like."""
    # A new object is not on its way out, though its author may say so.
    leaves = f"has({_NEW}.metadata.deletionTimestamp)"
    return {"name": "not-being-deleted", "expression": f"request.operation != 'UPDATE' || !{leaves}"}


def not_made_by(account: str, namespace: str) -> dict[str, Any]:
    """Objects that the service account makes for another object of ours, which was checked itself."""
    user = f"request.userInfo.username == 'system:serviceaccount:{namespace}:{account}'"
    owned = f"has({_NEW}.metadata.ownerReferences)"
    group = f"{_NEW}.metadata.ownerReferences.exists(o, o.apiVersion.startsWith('batch.volcano.sh/'))"
    return {"name": "not-of-a-checked-job", "expression": f"!({user} && {owned} && {group})"}


def unsealed() -> dict[str, Any]:
    """Not a new Job that the review which completed it has checked, and that is still as it was then."""
    new = f"request.operation == 'CREATE' && request.resource.resource == '{JOBS.plural}'"
    return {"name": "not-checked-yet", "expression": f"!({new} && {sealed(_NEW)})"}


def _text(obj: str, of: str, key: str) -> str:
    notes = f"{obj}.metadata.{of}"
    return f"(has({notes}) && '{key}' in {notes} ? {notes}['{key}'] : '')"


def _leads_anywhere(tree: _Tree, value: str, depth: int) -> str:
    """Whether one of the paths in a tree leads to something."""
    alternatives = []
    for (name, inside), below in tree.items():
        if name == "*":
            entry = f"x{depth}"
            within = _leads_anywhere(below, entry if inside else f"{value}[{entry}]", depth + 1)
            alternatives.append(f"{value}.exists({entry}, {within})")
            continue
        there = f"'{name}' in {value}" if inside else f"has({value}.{name})"
        at = f"{value}['{name}']" if inside else f"{value}.{name}"
        alternatives.append(f"({there} && {_leads_anywhere(below, at, depth)})" if below else there)
    return alternatives[0] if len(alternatives) == 1 else f"({' || '.join(alternatives)})"


def _differs(path: str) -> str:
    old, new = f"{_OLD}.{path}", f"{_NEW}.{path}"
    return f"has({old}) != has({new}) || (has({new}) && {new} != {old})"


# Webhook configurations: which requests the API server shows to ``unisono webhook``.
#
# The authority that signs the webhook's certificate is written into them by the webhook itself.

NAME = "unisono"
"""Name of both configurations."""
_SECONDS = 10
_CONFIGURATION = (
    f"object.metadata.name in {[*CONFIG_MAP_NAMES, INSTALLED_NAME]} || "
    f"object.metadata.name.endsWith('{CONFIG_MAP_SUFFIX}')"
)

_QUEUES: tuple[Kind[Any], ...] = (kinds.QUEUES,)
_DEFAULTED: tuple[Kind[Any], ...] = (kinds.JOBS, CRON_JOBS, JOB_FLOWS, HYPER_JOBS)
_GROUPS: tuple[Kind[Any], ...] = (kinds.POD_GROUPS,)
_GANGS: tuple[Kind[Any], ...] = (kinds.JOBS, kinds.POD_GROUPS)
_CHECKED: tuple[Kind[Any], ...] = (
    *(*FLOW_KINDS, *FLEET_KINDS),
    *(kinds.RESERVATIONS, kinds.TEMPORARY_QUOTAS, kinds.BUDGETS, kinds.PRICE_LISTS, kinds.NODE_CHECKS),
)
ASKED = frozenset((*_GANGS, *_CHECKED, *_QUEUES))
"""Kinds of ours whose objects are stored only when the webhook has said yes, or has checked what they are made from."""


def webhooks(options: InstallOptions) -> list[dict[str, Any]]:
    """The mutating and the validating configuration.

    Our own kinds wait for an answer, and only where there is something to complete or to check: never for a status.
    A new Job waits once: the review that completes it checks it, too, and its seal says so (decision 20).
    Whatever else names a queue, and only that, waits for an answer as well. What pods say besides is for a policy.
    """
    new, any_change = changed(), changed(annotations=True)
    once = {"reinvocationPolicy": "Never"}
    # Also after what other webhooks change: this review checks new Jobs, too.
    again = {"reinvocationPolicy": "IfNeeded"}
    ours = not_made_by("unisono-controllers", options.namespace)
    naming_queues = [
        (
            f"queues-of-{name}",
            # Those that are asked about in any case are here for what changes later.
            [_rule(tuple(each.kind for each in family if each.kind not in _GANGS), "CREATE", "UPDATE")]
            + [_rule((each.kind,), "UPDATE") for each in family if each.kind in _GANGS],
            [naming(family), renaming(family), not_of_components(options.namespace)]
            + ([not_of_operators()] if family is PODS_ALONE else []),
        )
        for name, family in {**FAMILIES, "others": foreign()}.items()
    ]
    mutating = [
        _of_all(_hook("new-jobs", "/mutate", [_rule(_DEFAULTED, "CREATE")], options, **again)),
        _hook("jobs", "/mutate", [_rule(_DEFAULTED, "UPDATE")], options, new, **again),
        # A Job's gang is complete as its controller makes it; other gangs may have to go to their namespace's queue.
        _hook("groups", "/mutate", [_rule(_GROUPS, "CREATE", "UPDATE")], options, new, ours, **once),
        _hook("queues", "/mutate", [_rule(_QUEUES, "CREATE", "UPDATE")], options, any_change, **once),
        *(_hook(name, "/mutate", rules, options, *only, **again) for name, rules, only in naming_queues),
    ]
    checking = [
        _hook("gangs", "/validate", [_rule(_GANGS, "CREATE", "UPDATE")], options, new, ours, unsealed()),
        _hook("objects", "/validate", [_rule(_CHECKED, "CREATE", "UPDATE")], options, any_change),
        _hook("queues", "/validate", [_rule(_QUEUES, "CREATE", "UPDATE", "DELETE")], options, any_change),
        # Only warns, and so do training jobs: their own operator may check them, too.
        _hook(
            "training",
            "/validate",
            [_rule(KUBEFLOW_KINDS, "CREATE", "UPDATE")],
            options,
            new,
            failurePolicy="Ignore",
            timeoutSeconds=3,
        ),
        _hook(
            "configuration",
            "/validate",
            [_rule((kinds.CONFIG_MAPS,), "CREATE", "UPDATE")],
            options,
            {"name": "our-configuration", "expression": _CONFIGURATION},
            failurePolicy="Ignore",
            timeoutSeconds=3,
        ),
        *(_hook(name, "/validate", rules, options, *only) for name, rules, only in naming_queues),
    ]
    return [
        _configuration("MutatingWebhookConfiguration", mutating),
        _configuration("ValidatingWebhookConfiguration", checking),
    ]


def _configuration(kind: str, hooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": VALIDATING_WEBHOOKS.api_version,
        "kind": kind,
        "metadata": {"name": NAME, "labels": labels("webhook")},
        "webhooks": hooks,
    }


def _hook(
    name: str, path: str, rules: list[dict[str, Any]], options: InstallOptions, *conditions: dict[str, Any], **more: Any
) -> dict[str, Any]:
    service = {"name": "unisono-webhook", "namespace": options.namespace, "path": path, "port": 443}
    return {
        "name": f"{name}.webhook.unisono",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": service},
        "rules": rules,
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": _SECONDS,
        "matchConditions": [staying(), *conditions],
        **more,
    }


def _of_all(hook: dict[str, Any]) -> dict[str, Any]:
    """Without conditions: a server turns an object over for them, which costs more than they do."""
    del hook["matchConditions"]
    return hook


def _rule(of: tuple[Kind[Any], ...], *operations: str) -> dict[str, Any]:
    return {
        "apiGroups": sorted({kind.group for kind in of}),
        "apiVersions": sorted({version for kind in of for version in (kind.version, *kind.alias_versions)}),
        "operations": list(operations),
        "resources": sorted({kind.plural for kind in of}),
        "scope": "*",
    }


# ValidatingAdmissionPolicies of the rules that CEL can say, and their bindings.


_PLACED, *_ALSO_PLACED = (*DISPATCHED, *DIVIDED)
PLACES_OF_JOBS = Policy(_PLACED, "places", {}, place_rules(), only_if=PLACED, also=tuple(_ALSO_PLACED))
"""Of hubs alone: other clusters have no members."""


def policies(*, webhook: bool = False, hub: bool = False) -> list[dict[str, Any]]:
    """One policy and one binding per entry of ``api.policies``; refused is what breaks a rule, on every namespace.

    Args:
        hub: the cluster is the hub of a fleet.
        webhook: the webhook is installed, too. It holds the rules of all kinds that it is asked about itself, and a
            server would spend more time on the same rules in CEL than on storing the object.
    """
    made = [(_policy(policy), policy) for policy in POLICIES if not (webhook and policy.kind in ASKED)]
    made += [(_right(policy), policy) for policy in (*RIGHTS, *RUNNING, *([PLACES_OF_JOBS] if hub else ()))]
    return [manifest for one, policy in made for manifest in (one, _binding(policy))]


def _meta(policy: Policy) -> dict[str, Any]:
    return {"name": f"{policy.name}.unisono", "labels": labels("policies")}


def _policy(policy: Policy) -> dict[str, Any]:
    kind = policy.kind
    return {
        "apiVersion": VALIDATING_WEBHOOKS.api_version,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": _meta(policy),
        "spec": {
            # Pods, which clusters live by, go on in any case.
            "failurePolicy": "Ignore" if kind is PODS else "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [each.group],
                        "apiVersions": [each.version, *each.alias_versions],
                        "operations": list(policy.operations),
                        "resources": [each.plural],
                    }
                    for each in (kind, *policy.also)
                ],
                **_selector(policy),
            },
            **(
                {"variables": [{"name": name, "expression": said} for name, said in policy.variables.items()]}
                if policy.variables
                else {}
            ),
            "validations": [_validation(rule) for rule in policy.rules],
            "matchConditions": _conditions(policy),
        },
    }


def _validation(rule: Rule) -> dict[str, Any]:
    said = rule.said()
    message_field = {"message": said} if said is not None else {"messageExpression": rule.message}
    return {"expression": rule.expression(), **message_field, "reason": "Invalid"}


def _selector(policy: Policy) -> dict[str, Any]:
    if not policy.without_label:
        return {}
    return {"objectSelector": {"matchExpressions": [{"key": policy.without_label, "operator": "DoesNotExist"}]}}


def _conditions(policy: Policy) -> list[dict[str, Any]]:
    """Without objects on their way out, and without updates that change nothing of what the rules look at."""
    conditions = [staying()]
    if "UPDATE" in policy.operations:
        conditions.append(changed(annotations=policy.annotations))
    return conditions + _concerned(policy)


def _concerned(policy: Policy) -> list[dict[str, Any]]:
    return [{"name": "concerned", "expression": policy.only_if}] if policy.only_if else []


def _right(policy: Policy) -> dict[str, Any]:
    """A policy that no state of the object escapes: a command that is being deleted is still carried out.

    It may say when there is nothing to ask; a server then evaluates that alone, and not the rules and their texts.
    """
    made = _policy(policy)
    made["spec"]["matchConditions"] = _concerned(policy)
    if not policy.only_if:
        del made["spec"]["matchConditions"]
    for validation in made["spec"]["validations"]:
        validation["reason"] = "Forbidden"
    return made


def _binding(policy: Policy) -> dict[str, Any]:
    meta = _meta(policy)
    return {
        "apiVersion": VALIDATING_WEBHOOKS.api_version,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": meta,
        "spec": {"policyName": meta["name"], "validationActions": ["Deny"]},
    }
