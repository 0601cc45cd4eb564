"""JSON patch, RFC 6902: a list of add, remove, replace, move, copy and test; made from two documents, and applied."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from unisono.errors import ApiError, Invalid

# Equality of JSON values, where Python's differs: ``True`` is not 1, though 1 is 1.0.
#
# Lists may be tuples, as structs keep them.


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON."""
    if isinstance(one, str) or one is None:
        return bool(one == other)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict):
        if not isinstance(other, dict) or len(one) != len(other):
            return False
        return all(key in other and same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return isinstance(other, list | tuple) and len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def frozen(value: Any) -> Hashable:
    """A key that is the same for equal values, and for no others."""
    if isinstance(value, dict):
        return dict, frozenset((name, frozen(each)) for name, each in value.items())
    if isinstance(value, list | tuple):
        return list, tuple(map(frozen, value))
    key: Hashable = (bool, value) if isinstance(value, bool) else value
    return key


class Members:
    """The values of a list, for ``in``, without a walk through the list for each question."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._keys = {frozen(each) for each in values}

    def __contains__(self, value: Any) -> bool:
        return frozen(value) in self._keys


def clone(value: Any) -> Any:
    """A copy of decoded JSON, several times as fast as ``copy.deepcopy``."""
    if isinstance(value, dict):
        return {key: clone(each) for key, each in value.items()}
    if isinstance(value, list):
        return [clone(each) for each in value]
    return value


Patch = list[dict[str, Any]]
MAX_OPERATIONS = 10_000
# ``copy`` can double a document with each operation: the sum of what it copies is bounded, in bytes of JSON, as by a
# kube-apiserver. It is measured before the copy is made.
MAX_COPIED = 3 << 20
_ESCAPE = re.compile(r"~(?![01])")


def json_diff(before: Any, after: Any) -> Patch:
    """Operations that turn ``before`` into ``after``; lists of different length are replaced as a whole."""
    return list(_between(before, after, ""))


def _between(before: Any, after: Any, path: str) -> Iterator[dict[str, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            if key not in after:
                yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
        for key, value in after.items():
            at = f"{path}/{_escaped(key)}"
            if key in before:
                yield from _between(before[key], value, at)
            else:
                yield {"op": "add", "path": at, "value": value}
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _between(old, new, f"{path}/{index}")
    elif not same(before, after):
        yield {"op": "replace", "path": path, "value": after}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def apply_json_patch(target: Any, patch: Any) -> Any:
    """The patched value; changes neither argument.

    Raises:
        ApiError: 400 for a malformed patch, 413 for one with too many operations.
        Invalid: 422 when a path does not exist or a test fails; nothing is applied then.

    """
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        raise malformed("a JSON patch must be a list of operations")
    if len(patch) > MAX_OPERATIONS:
        raise ApiError(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}",
            code=413,
            reason="RequestEntityTooLarge",
        )
    document = clone(target)
    budget = MAX_COPIED
    for operation in patch:
        document, copied = _apply(document, operation, budget)
        budget -= copied
    return document


def _apply(document: Any, operation: dict[str, Any], budget: int) -> tuple[Any, int]:
    name, path = operation.get("op"), _tokens(operation.get("path"))
    match name:
        case "add":
            return _add(document, path, clone(_value(operation))), 0
        case "replace":
            _get(document, path)
            return _replace(document, path, clone(_value(operation))), 0
        case "remove":
            return _remove(document, path), 0
        case "test":
            if not same(_get(document, path), _value(operation)):
                raise _refused(f"testing value {operation['path']} failed")
            return document, 0
        case "move":
            source = _tokens(operation.get("from"))
            if path[: len(source)] == source and path != source:
                raise _refused(f"cannot move {operation['from']} into itself")
            value = _get(document, source)
            return _add(_remove(document, source), path, value), 0
        case "copy":
            value = _get(document, _tokens(operation.get("from")))
            if (size := _size(value)) > budget:
                raise _refused(f"the patch copies more than {MAX_COPIED} bytes")
            return _add(document, path, clone(value)), size
        case _:
            raise _refused(f"unexpected kind: {name}")


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise malformed(f"the {operation['op']} operation of a JSON patch needs a value")
    return operation["value"]


def _tokens(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")) or _ESCAPE.search(pointer):
        raise malformed(f"{pointer!r} is not a JSON pointer")
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _get(document: Any, path: list[str]) -> Any:
    for token in path:
        if isinstance(document, dict):
            if token not in document:
                raise _missing(path)
            document = document[token]
        elif isinstance(document, list):
            document = document[_index(token, len(document) - 1, path)]
        else:
            raise _missing(path)
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        index = len(parent) if path[-1] == "-" else _index(path[-1], len(parent), path)
        parent.insert(index, value)
    else:
        raise _missing(path)
    return document


def _replace(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        parent[_index(path[-1], len(parent) - 1, path)] = value
    else:
        parent[path[-1]] = value
    return document


def _remove(document: Any, path: list[str]) -> Any:
    _get(document, path)
    if not path:
        return None
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        del parent[_index(path[-1], len(parent) - 1, path)]
    else:
        del parent[path[-1]]
    return document


def _index(token: str, last: int, path: list[str]) -> int:
    if not re.fullmatch(r"0|[1-9][0-9]{0,9}", token) or int(token) > last:
        raise _missing(path)
    return int(token)


def _size(value: Any) -> int:
    """About the bytes of a value as JSON."""
    if isinstance(value, dict):
        return 2 + sum(len(key) + 4 + _size(each) for key, each in value.items())
    if isinstance(value, list):
        return 2 + sum(1 + _size(each) for each in value)
    return 2 + len(value) if isinstance(value, str) else 2


def _missing(path: list[str]) -> ApiError:
    return _refused(f"the path /{'/'.join(path)} does not exist")


def malformed(message: str) -> ApiError:
    """400 for a patch that is none."""
    return ApiError(message, code=400, reason="BadRequest")


def _refused(why: str) -> Invalid:
    return Invalid(f"the server rejected our request due to an error in our request: {why}")
