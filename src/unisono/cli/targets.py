"""What users name on the command line: ``KIND NAME...``, ``KIND/NAME`` and ``-f FILE``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.errors import UnisonoError
from unisono.kube.discovery import Resource, ResourceMap


class BadTarget(UnisonoError):
    """The words on the command line name no object."""


@dataclass(frozen=True, slots=True)
class Target:
    """One named object, or all of a kind where ``name`` is None."""

    resource: Resource
    name: str | None


def parse(words: Sequence[str], resources: ResourceMap) -> list[Target]:
    """``job/a pod/b``, ``job a b``, ``jobs,pods`` or ``all``.

    Raises:
        BadTarget: the words mix the two forms or are empty.
        UnknownKind: the server has no such kind.

    """
    if not words:
        raise BadTarget("Name what you mean: a kind (job), a kind and a name (job hello), or KIND/NAME (job/hello).")
    if any("/" in word for word in words):
        return [_slashed(word, resources) for word in words]
    kinds = _kinds(words[0], resources)
    names = words[1:]
    if not names:
        return [Target(resource, None) for resource in kinds]
    if len(kinds) != 1:
        raise BadTarget(
            f"Names need one kind, and '{words[0]}' stands for {len(kinds)}: give KIND/NAME for each object."
        )
    return [Target(kinds[0], name) for name in names]


def one(words: Sequence[str], resources: ResourceMap) -> Target:
    """Exactly one named object; a name alone, which no kind has, is a job's.

    Raises:
        BadTarget: none or several are named, or a kind alone.
        UnknownKind: the server has no such kind.

    """
    if len(words) == 1 and "/" not in words[0] and not resources.has(words[0]):
        return _slashed(f"job/{words[0]}", resources)
    targets = parse(words, resources)
    if len(targets) != 1 or targets[0].name is None:
        raise BadTarget("Name one object, such as job/hello.")
    return targets[0]


def _slashed(word: str, resources: ResourceMap) -> Target:
    kind, _, name = word.partition("/")
    if not kind or not name or "/" in name:
        raise BadTarget(f"'{word}' is not of the form KIND/NAME; kinds and names cannot be mixed with it.")
    return Target(resources.named(kind), name)


def _kinds(word: str, resources: ResourceMap) -> list[Resource]:
    found: list[Resource] = []
    for name in word.split(","):
        found += resources.in_category(name) if name == "all" else [resources.named(name)]
    return found
