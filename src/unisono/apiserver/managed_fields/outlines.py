"""Objects of one outline have the same fields: values that no ownership depends on are left out, answers are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sized
from typing import Any, Generic, TypeVar

from unisono.apiserver.managed_fields.paths import Schema

T = TypeVar("T", bound=Sized)


def telling(schema: Schema) -> frozenset[str]:
    """Names of fields whose values tell items of lists apart, anywhere in a schema, and of lists that are sets."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        found.update(node.get("x-kubernetes-list-map-keys", ()))
        for name, each in node.items():
            if isinstance(each, dict) and each.get("x-kubernetes-list-type") == "set":
                found.add(name)
            waiting.append(each)
    return frozenset(found)


def outline(value: Any, names: frozenset[str]) -> Hashable:
    """A JSON value without what is behind other names than ``names``, apart from what holds further fields.

    Two objects with equal outlines have the same fields in the sense of ``compare``, where ``names`` are the telling
    ones of their schema: their maps have the same keys, their lists the same items by key.
    """
    if isinstance(value, dict):
        return tuple([(name, _behind(name, each, names)) for name, each in value.items()])
    # Lists of plain values are one field, whatever they hold.
    return tuple([outline(each, names) if isinstance(each, dict | list) else None for each in value])


def _behind(name: str, value: Any, names: frozenset[str]) -> Hashable:
    if name in names:
        return repr(value)
    return outline(value, names) if isinstance(value, dict | list) else None


class Kept(Generic[T]):
    """The answers to the last ``most`` questions.

    Args:
        most: how many are kept.
        largest: length from which on an answer is not kept, for it and its question take megabytes.

    """

    def __init__(self, most: int, largest: int) -> None:
        self._most, self._largest = most, largest
        self._answers: OrderedDict[Hashable, T] = OrderedDict()

    def answer(self, question: Hashable, find: Callable[[], T]) -> T:
        """What ``find`` answered to this question, or answers now; a failure is not kept."""
        if question in self._answers:
            self._answers.move_to_end(question)
            return self._answers[question]
        found = find()
        if len(found) >= self._largest:
            return found
        self._answers[question] = found
        if len(self._answers) > self._most:
            self._answers.popitem(last=False)
        return found
