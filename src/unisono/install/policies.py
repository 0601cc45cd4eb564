"""ValidatingAdmissionPolicies of the rules that CEL can say, and their bindings."""

from __future__ import annotations

from typing import Any

from unisono.api.admission_registration import VALIDATING_WEBHOOKS
from unisono.api.kinds import PODS
from unisono.api.policies import POLICIES, RIGHTS, Policy
from unisono.api.policies.rule import Rule
from unisono.install.conditions import changed, staying
from unisono.install.options import labels
from unisono.install.webhooks import ASKED


def policies(*, webhook: bool = False) -> list[dict[str, Any]]:
    """One policy and one binding per entry of ``api.policies``; refused is what breaks a rule, on every namespace.

    Args:
        webhook: the webhook is installed, too. It holds the rules of all kinds that it is asked about itself, and a
            server would spend more time on the same rules in CEL than on storing the object.

    """
    made = [(_policy(policy), policy) for policy in POLICIES if not (webhook and policy.kind in ASKED)]
    made += [(_right(policy), policy) for policy in RIGHTS]
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
    told = {"message": said} if said is not None else {"messageExpression": rule.message}
    return {"expression": rule.expression(), **told, "reason": "Invalid"}


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
