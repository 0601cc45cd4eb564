"""Checks of what plug-ins answer: each returns the answer in the form that the engine uses, or raises `BadAnswer`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from unisono.engine.answers import Normalise, RawScore, Reason, Refusal, Veto, Vote
from unisono.engine.changes import Change
from unisono.engine.decisions import ClaimAllocation, VolumeBind
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.engine.session.session import Session

Arguments = tuple[Any, ...]
Check = Callable[[Any, Arguments, "Session"], Any]

_DEEPEST_KEY = 8
_UNBOUNDED = 2**62
_BOOLS = np.dtype(np.bool_)


class BadAnswer(Exception):
    """A plug-in answered something that its hook must not answer."""


def _expected(what: str, answer: object) -> BadAnswer:
    return BadAnswer(f"answered {'None' if answer is None else type(answer).__name__} instead of {what}")


# ---- plain values


def nothing(answer: Any, arguments: Arguments, session: Session) -> None:
    """A notice: whatever is answered is not looked at."""


def flag(answer: Any, arguments: Arguments, session: Session) -> bool:
    """A bool."""
    if not isinstance(answer, bool | np.bool_):
        raise _expected("a bool", answer)
    return bool(answer)


def whole(answer: Any, arguments: Arguments, session: Session) -> int:
    """A whole number."""
    if isinstance(answer, bool) or not isinstance(answer, int | np.integer):
        raise _expected("a whole number", answer)
    return min(int(answer), _UNBOUNDED)


def number(answer: Any, arguments: Arguments, session: Session) -> float:
    """A finite number."""
    if isinstance(answer, bool) or not isinstance(answer, int | float | np.integer | np.floating):
        raise _expected("a number", answer)
    if not isfinite(answer):
        raise BadAnswer(f"answered {answer}, which is not a finite number")
    return float(answer)


def text(answer: Any, arguments: Arguments, session: Session) -> str:
    """A text."""
    if not isinstance(answer, str):
        raise _expected("a text", answer)
    return answer


def maybe(check: Check) -> Check:
    """None, or what another check accepts."""

    def checked(answer: Any, arguments: Arguments, session: Session) -> Any:
        return None if answer is None else check(answer, arguments, session)

    return checked


# ---- refusals


def refusal(answer: Any, arguments: Arguments, session: Session) -> Refusal:
    """A `Refusal` with texts and amounts."""
    if not isinstance(answer, Refusal):
        raise _expected("a Refusal", answer)
    if not isinstance(answer.message, str) or not isinstance(answer.cause, Cause):
        raise BadAnswer("answered a Refusal without a text or a Cause")
    for amounts in (answer.need, answer.have, answer.limit):
        if not isinstance(amounts, Mapping) or not all(
            isinstance(name, str) and isinstance(amount, int | np.integer) for name, amount in amounts.items()
        ):
            raise BadAnswer("answered a Refusal whose amounts are not whole numbers by resource name")
    return answer


def vote(answer: Any, arguments: Arguments, session: Session) -> Vote | Refusal:
    """A `Vote` or a `Refusal`."""
    return answer if isinstance(answer, Vote) else refusal(answer, arguments, session)


def reason(answer: Any, arguments: Arguments, session: Session) -> Reason:
    """A `Reason` with a text."""
    if not isinstance(answer, Reason) or not isinstance(answer.text, str) or not isinstance(answer.cause, Cause):
        raise _expected("a Reason", answer)
    return answer


# ---- arrays


def _mask(answer: Any, size: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if not isinstance(answer, np.ndarray) or (answer.dtype is not _BOOLS and answer.dtype != np.bool_):
        raise _expected("an array of bools", answer)
    if answer.shape != (size,):
        raise BadAnswer(f"answered an array of shape {answer.shape} instead of ({size},)")
    return answer


def mask_of(position: int) -> Check:
    """A mask over the items of one argument."""

    def checked(answer: Any, arguments: Arguments, session: Session) -> Any:
        return _mask(answer, len(arguments[position]))

    return checked


def all_finite(points: np.ndarray[Any, np.dtype[Any]]) -> bool:
    """Whether all are finite numbers; counted, which costs a third of what ``all`` does for some hundred nodes."""
    return bool(np.count_nonzero(np.isfinite(points)) == points.size)


def _points(answer: Any, size: int, kinds: str = "fiu") -> Any:
    if not isinstance(answer, np.ndarray) or answer.dtype.kind not in kinds:
        raise _expected("an array of numbers", answer)
    if answer.shape != (size,):
        raise BadAnswer(f"answered an array of shape {answer.shape} instead of ({size},)")
    if not all_finite(answer):
        raise BadAnswer("answered points that are not finite numbers")
    return answer


def points_of(position: int) -> Check:
    """Finite points, one for each item of one argument."""

    def checked(answer: Any, arguments: Arguments, session: Session) -> Any:
        return _points(answer, len(arguments[position]))

    return checked


def node_points(answer: Any, arguments: Arguments, session: Session) -> Any:
    """Finite points, one for each node of the view."""
    return _points(answer, arguments[1].size)


def vetoes(answer: Any, arguments: Arguments, session: Session) -> tuple[Veto, ...]:
    """Vetoes over the nodes of the view; one that is made lazily is made here."""
    size = arguments[1].size
    try:
        checked = tuple(answer)
    except TypeError:
        raise _expected("vetoes", answer) from None
    shape = (size,)
    for veto in checked:
        if not isinstance(veto, Veto):
            raise _expected("a Veto", veto)
        nodes = veto.nodes
        if type(nodes) is not np.ndarray or nodes.dtype is not _BOOLS or nodes.shape != shape:
            _mask(nodes, size)
        why = veto.reason
        if type(why) is not Reason or type(why.text) is not str or type(why.cause) is not Cause:
            reason(why, arguments, session)
    return checked


def raw_scores(answer: Any, arguments: Arguments, session: Session) -> tuple[RawScore, ...]:
    """Raw scores over the nodes of the view, with finite weights."""
    size = arguments[1].size
    try:
        scores = tuple(answer)
    except TypeError:
        raise _expected("raw scores", answer) from None
    for score in scores:
        if not isinstance(score, RawScore) or not isinstance(score.normalise, Normalise):
            raise _expected("a RawScore", score)
        number(score.weight, arguments, session)
        _points(score.raw, size, "fiub")
    return scores


def lines(answer: Any, arguments: Arguments, session: Session) -> Any:
    """A `LineScore`: a line for each node, and the two methods."""
    codes = getattr(answer, "codes", None)
    if not isinstance(codes, np.ndarray) or codes.dtype.kind not in "iu" or codes.shape != (session.nodes.size,):
        raise _expected("a LineScore", answer)
    if not callable(getattr(answer, "points", None)) or not callable(getattr(answer, "steady", None)):
        raise _expected("a LineScore", answer)
    return answer


# ---- lists


def gradients(answer: Any, arguments: Arguments, session: Session) -> list[list[int]]:
    """Lists of HyperNodes that exist."""
    most = len(session.snapshot.hyper_nodes)
    try:
        checked = [[whole(at, arguments, session) for at in gradient] for gradient in answer]
    except TypeError:
        raise _expected("lists of HyperNodes", answer) from None
    if any(not 0 <= at < most for gradient in checked for at in gradient):
        raise BadAnswer("answered a HyperNode that does not exist")
    return checked


def notes(answer: Any, arguments: Arguments, session: Session) -> dict[str, str]:
    """Annotations."""
    if not isinstance(answer, Mapping):
        raise _expected("annotations", answer)
    entries = dict(answer)
    if not all(isinstance(key, str) and isinstance(value, str) for key, value in entries.items()):
        raise BadAnswer("answered annotations that are not texts")
    return entries


def preparations(answer: Any, arguments: Arguments, session: Session) -> tuple[VolumeBind | ClaimAllocation, ...]:
    """What is written before a bind."""
    try:
        checked = tuple(answer)
    except TypeError:
        raise _expected("preparations", answer) from None
    for each in checked:
        if not isinstance(each, VolumeBind | ClaimAllocation):
            raise _expected("a preparation", each)
    return checked


def relaxations(answer: Any, arguments: Arguments, session: Session) -> tuple[Change, ...]:
    """Changes that may be tried."""
    try:
        changes = tuple(answer)
    except TypeError:
        raise _expected("changes", answer) from None
    for each in changes:
        if not isinstance(each, Change):
            raise _expected("a change", each)
    return changes


# ---- keys


class Ranked:
    """A key that is not a number; it comes after all numbers, texts come before tuples.

    So any two keys compare, whatever a plug-in answers for one item and for another.
    """

    __slots__ = ("rank", "value")
    __array_ufunc__ = None  # NumPy's numbers leave comparing to this class

    def __init__(self, rank: int, value: Any) -> None:
        self.rank = rank
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranked) and (self.rank, self.value) == (other.rank, other.value)

    def __hash__(self) -> int:
        return hash((self.rank, self.value))

    def __lt__(self, other: object) -> bool:
        return isinstance(other, Ranked) and (self.rank, self.value) < (other.rank, other.value)

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, Ranked) or (self.rank, self.value) > (other.rank, other.value)


LAST: Final = Ranked(3, ())
"""The key of an item for which a plug-in has none: it comes last."""


def key(answer: Any, arguments: Arguments, session: Session) -> Any:
    """A number, a text, or a tuple of keys, in a form that compares with every other key."""
    return _comparable(answer, 0)


def _comparable(answer: Any, depth: int) -> Any:
    kind = type(answer)
    if kind is int or kind is bool:
        return answer
    if isinstance(answer, float | np.floating):
        if isnan(answer):
            raise BadAnswer("answered NaN, which has no place in an order")
        return float(answer)
    if isinstance(answer, int | np.integer):
        return int(answer)
    if isinstance(answer, str):
        return Ranked(1, str(answer))
    if isinstance(answer, tuple | list) and depth < _DEEPEST_KEY:
        return Ranked(2, tuple(_comparable(each, depth + 1) for each in answer))
    raise _expected("a number, a text or a tuple of them", answer)
