"""Rules about who may have a controller act, in CEL with the cluster's own authorizer.

The embedded API server checks the same in ``apiserver.authorization.escalation`` and ``apiserver.admission``.
"""

from __future__ import annotations

from typing import Any

from unisono.api.annotations import USER
from unisono.api.commands import TARGETS
from unisono.api.kind import Kind
from unisono.api.policies.rule import Rule, given, text

_TARGET = "object.target"
ACT_FOR = "act-for"
"""The verb, on queues, of those who say for which user an object is."""
QUEUE_GROUP = "scheduling.volcano.sh"
VERBS = ("update", "patch")
"""Either lets a user change the target, which is what a command does."""


def command_rules() -> tuple[Rule, ...]:
    """A command is carried out with the controllers' rights: its author must be allowed to change the target."""
    same = (
        "request.operation == 'UPDATE' && has(oldObject.target) && oldObject.target == object.target && "
        "has(oldObject.action) == has(object.action) && (!has(object.action) || oldObject.action == object.action)"
    )
    return tuple(
        Rule(
            f"!has({_TARGET}) || ({same}) || {_TARGET}.kind != '{kind.kind}' || "
            f"{_TARGET}.apiVersion.split('/')[0] != '{kind.group}' || "
            + " || ".join(f"{_authorizer(kind)}.check('{verb}').allowed()" for verb in VERBS),
            f"'User \"' + request.userInfo.username + '\" cannot update {kind.resource} \"' + {_TARGET}.name + "
            "'\", and a Command acts with the rights of its author'",
        )
        for kind in TARGETS
    )


_PRIORITY = "object.spec.priorityClassName"
OF_THE_SYSTEM = f"(has(object.spec) && {given(_PRIORITY)} && {_PRIORITY}.startsWith('system-'))"
"""CEL: only then is there something to ask of a gang's priority."""


def priority_rules() -> tuple[Rule, ...]:
    """The system's priority classes are not for every gang."""
    old = "oldObject.spec.priorityClassName"
    kept = f"oldObject != null && has(oldObject.spec) && has({old}) && {old} == {_PRIORITY}"
    return (
        Rule(
            f"!{OF_THE_SYSTEM} || object.metadata.namespace == 'kube-system' || ({kept})",
            text("spec.priorityClassName: priority classes of the system are for kube-system only"),
        ),
    )


def _noted(obj: str) -> str:
    notes = f"{obj}.metadata.annotations"
    return f"(has({notes}) && '{USER}' in {notes} ? {notes}['{USER}'] : '')"


FOR_ANOTHER = (
    f"(request.operation == 'UPDATE' ? {_noted('object')} != {_noted('oldObject')} : "
    f"!({_noted('object')} in ['', request.userInfo.username]))"
)
"""CEL: an author says whose the object is, and does not mean himself."""


def user_rules() -> tuple[Rule, ...]:
    """Whose job it is, on which limits and shares of users rest, is not for its author to choose.

    A new object names its author or no one; later the name stays. Components that act for others have the verb.
    """
    queues = f"authorizer.group('{QUEUE_GROUP}').resource('queues')"
    return (
        Rule(
            f"!{FOR_ANOTHER} || {queues}.check('{ACT_FOR}').allowed()",
            text(f"metadata.annotations[{USER}]: it names who submits the object, and cannot be chosen or changed"),
        ),
    )


def _authorizer(kind: Kind[Any]) -> str:
    where = ".namespace(object.metadata.namespace)" if kind.namespaced else ""
    return f"authorizer.group('{kind.group}').resource('{kind.plural}'){where}.name({_TARGET}.name)"
