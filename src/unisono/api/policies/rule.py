"""One rule in CEL, and the rules of one kind together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unisono.api.kind import Kind

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
