"""Answers that are found once in a session, whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_NOTHING = object()


class _Answers(dict[tuple[Any, ...], Any]):
    """By function and what it is asked."""


def once(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, asked the same once in a session: the first argument is that, or its cycle.

    The others are hashable. Whoever gets an answer must not change it.
    """

    @wraps(function)
    def answer(*args: P.args, **kwargs: P.kwargs) -> T:
        of: Any = args[0]
        answers = getattr(of, "session", of).shared.of(_Answers, _Answers)
        key = (function, *args[1:], *kwargs.values())
        cached: Any = answers.get(key, _NOTHING)
        if cached is _NOTHING:
            cached = answers[key] = function(*args, **kwargs)
        result: T = cached
        return result

    return answer
