"""One rule in CEL, and the rules of one kind together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unisono.api.kind import Kind

# Comparing every entry with every other stays within a server's bounds up to so many; the webhook has no such bound.
MANY = 200


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

    """

    kind: Kind[Any]
    name: str
    variables: Mapping[str, str]
    rules: tuple[Rule, ...]
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    annotations: bool = False
    only_if: str = ""


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
