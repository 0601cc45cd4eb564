"""One rule in CEL, and the rules of one kind together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from unisono.api.annotations import CLUSTER, DISPATCH, FORGOTTEN, PLACES, USER
from unisono.api.commands import TARGETS
from unisono.api.keys import GROUP_NAME, GROUP_NAME_OF_VOLCANO
from unisono.api.kind import Kind
from unisono.api.messages import same_group

# Comparing every entry with every other stays within a server's bounds up to so many; the webhook has no such bound.
MANY = 200
_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'")


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that must hold.

    Attributes:
        holds: CEL expression; true when all is well.
        message: CEL expression of the refusal's text.
        creation: the rule is about new objects only.

    """

    holds: str
    message: str
    creation: bool = False

    def expression(self) -> str:
        """``holds``, limited to creations where the rule is."""
        return f"request.operation != 'CREATE' || ({self.holds})" if self.creation else self.holds

    def said(self) -> str | None:
        """The refusal's text where it is always the same; None where it quotes the object.

        A server evaluates the message expressions of all rules whenever it looks at an object, good ones included.
        """
        return re.sub(r"\\(.)", r"\1", self.message[1:-1]) if _LITERAL.fullmatch(self.message) else None


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules of one kind.

    Attributes:
        kind: whose objects.
        name: of the policy, after the product's.
        variables: CEL expressions by name, which the rules reach as ``variables.NAME``.
        rules: in the order in which they are told.
        operations: of the requests that are looked at.
        annotations: rules look at these as well as at the spec.
        only_if: CEL expression; objects for which it is false are not looked at. Empty for all.
        without_label: objects that have this label are not looked at, which is cheaper than any expression. Anybody
            may set a label, so it must not stand for a right. Empty for none.
        also: other kinds whose objects must hold to the same rules.

    """

    kind: Kind[Any]
    name: str
    variables: Mapping[str, str]
    rules: tuple[Rule, ...]
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    annotations: bool = False
    only_if: str = ""
    without_label: str = ""
    also: tuple[Kind[Any], ...] = ()


def text(message: str) -> str:
    """A CEL string of this text."""
    escaped = message.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def given(path: str) -> str:
    """CEL: the string at ``path`` is there and is not empty."""
    return f"(has({path}) && {path} != '')"


def entries(path: str) -> str:
    """CEL: the list at ``path``, empty where it is absent."""
    return f"(has({path}) ? {path} : [])"


def number(path: str) -> str:
    """CEL: the number at ``path``, 0 where it is absent."""
    return f"(has({path}) ? {path} : 0)"


# Rules about who may have a controller act, in CEL with the cluster's own authorizer.
#
# The embedded API server checks the same in ``apiserver.authorization.roles`` and ``apiserver.admission``.

_TARGET = "object.target"
ACT_FOR = "act-for"
"""The verb, on queues, of those who say for which user an object is."""
PLACE = "place"
"""The verb, on queues, of those who say in which member of a fleet jobs are."""
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


def _noted(obj: str, key: str = USER) -> str:
    notes = f"{obj}.metadata.annotations"
    return f"(has({notes}) && '{key}' in {notes} ? {notes}['{key}'] : '')"


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


_GROUP_KEYS = (GROUP_NAME, GROUP_NAME_OF_VOLCANO)


def _group(obj: str) -> str:
    first, second = (_noted(obj, key) for key in _GROUP_KEYS)
    of_spec = f"{obj}.spec.schedulingGroup"
    third = f"(has({of_spec}) && has({of_spec}.podGroupName) ? {of_spec}.podGroupName : '')"
    return f"({first} != '' ? {first} : {second} != '' ? {second} : {third})"


LEAVES_GROUP = (
    f"has(oldObject.spec.nodeName) && {_group('oldObject')} != '' && {_group('oldObject')} != {_group('object')}"
)
"""CEL: a pod that has a node names another PodGroup than before."""


def group_rules() -> tuple[Rule, ...]:
    """A pod that has a node stays in its PodGroup: it would count for no queue, user or budget."""
    queues = f"authorizer.group('{QUEUE_GROUP}').resource('queues')"
    return (
        Rule(
            f"!({LEAVES_GROUP}) || {queues}.check('{ACT_FOR}').allowed()", text(f"metadata.annotations: {same_group()}")
        ),
    )


def _is_placed(keys: Iterable[str]) -> str:
    """CEL: an annotation of these is not as it was."""
    before = {key: f"(request.operation == 'UPDATE' ? {_noted('oldObject', key)} : '')" for key in keys}
    away = {key: f"{_noted('object', key)} != '' && " if key in FORGOTTEN else "" for key in before}
    return " || ".join(f"({away[key]}{_noted('object', key)} != {text})" for key, text in before.items())


PLACED = _is_placed(PLACES)
"""CEL: an author says in which member of a fleet an object is, or has its replicas."""


def place_rules() -> tuple[Rule, ...]:
    """Where jobs of a hub are only the hub says; a user may take an own job back.

    What is made from a template is a controller's, and has no place either.
    """
    number = _noted("oldObject", DISPATCH)
    back = (
        f"request.operation == 'UPDATE' && {_noted('oldObject', CLUSTER)} != '' && "
        f"{_noted('object', CLUSTER)} == '' && "
        f"{number}.matches('^[0-9]{{1,18}}$') && {_noted('object', DISPATCH)} == string(int({number}) + 1) && "
        f"!({_is_placed(key for key in PLACES if key not in (CLUSTER, DISPATCH))})"
    )
    queues = f"authorizer.group('{QUEUE_GROUP}').resource('queues')"
    keys = ", ".join(PLACES)
    return (
        Rule(
            f"!({PLACED}) || ({back}) || {queues}.check('{PLACE}').allowed()",
            text(f"metadata.annotations: only the hub may write {keys}, as it chooses the members"),
        ),
    )


def _authorizer(kind: Kind[Any]) -> str:
    where = ".namespace(object.metadata.namespace)" if kind.namespaced else ""
    return f"authorizer.group('{kind.group}').resource('{kind.plural}'){where}.name({_TARGET}.name)"
