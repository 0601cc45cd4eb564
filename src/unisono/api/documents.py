"""JSON documents: whether two are equal, what changed from one to another, and patches of all kinds (pure)."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from unisono.api.merge_keys import LISTS
from unisono.errors import ApiError, Invalid

# JSON patch, RFC 6902: a list of add, remove, replace, move, copy and test; made from two documents, and applied.

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


# JSON merge patches (RFC 7386), the same with lists of named items, and changes carried over to another document.

Json = dict[str, Any]
# Fields by which the items of a list are the same, by the list's name; the first that all items have. Volumes of pods
# have names, those of Volcano's jobs paths.
_ITEM_KEYS: dict[str, tuple[str, ...]] = {
    name: (merge.key,)
    for struct in ("PodSpec", "Container")
    for name, merge in LISTS[struct].items()
    if merge.key and merge.strategy
} | {"tasks": ("name",), "replicatedJobs": ("name",), "volumes": ("name", "mountPath")}


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """The patched value: null deletes, objects merge, everything else is replaced.

    It shares unchanged parts with ``target``; neither argument is changed.
    """
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply_merge_patch(result.get(key), value)
    return result


def merge_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """The merge patch that turns ``old`` into ``new``; empty when they are equal.

    Lists are replaced as a whole. A merge patch cannot write null, so that a key with null counts as none.
    """
    patch: Json = {key: None for key in old if new.get(key) is None and old[key] is not None}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if change := merge_diff(before, value):
                patch[key] = change
        elif value is not None and not same(before, value):
            patch[key] = value
    return patch


def merge_named(base: Any, patch: Any, field: str = "") -> Any:
    """A merge patch whose lists of named items, such as containers, are merged item by item; others are replaced.

    Args:
        base: what is patched.
        patch: what goes over it.
        field: the name that the two have in the document around them.
    """
    if isinstance(patch, dict):
        result = dict(base) if isinstance(base, dict) else {}
        for name, value in patch.items():
            if value is None:
                result.pop(name, None)
            else:
                result[name] = merge_named(result.get(name), value, name)
        return result
    if isinstance(patch, list | tuple) and isinstance(base, list | tuple):
        items = [*base, *patch]
        for key in _ITEM_KEYS.get(field, ()):
            if all(isinstance(item, dict) and key in item for item in items):
                return _merged_items(key, items)
    return patch


def _merged_items(key: str, items: list[Json]) -> list[Json]:
    merged: list[Json] = []
    places: dict[Any, int] = {}
    for item in items:
        at = places.setdefault(frozen(item[key]), len(merged))
        if at == len(merged):
            merged.append(item)
        else:
            merged[at] = merge_named(merged[at], item)
    return merged


def carry_over(base: Any, before: Any, after: Any) -> Any:
    """``base`` with what changed from ``before`` to ``after``; what neither of the two knows stays as it is."""
    if isinstance(base, dict) and isinstance(before, dict) and isinstance(after, dict):
        changed = {
            key: carry_over(base.get(key), before.get(key), value)
            for key, value in after.items()
            if key not in before or not same(before[key], value)
        }
        return {key: value for key, value in base.items() if key in after or key not in before} | changed
    lists = (base, before, after)
    if all(isinstance(value, list) for value in lists) and len({len(value) for value in lists}) == 1:
        return [carry_over(*each) for each in zip(*lists, strict=True)]
    return base if same(before, after) else after


# Strategic merge patch: lists of objects merge by a key that the schema names, with directives in the patch.
#
# Directives: ``$patch: delete|replace|merge`` in an object or list item, ``$retainKeys``,
# ``$deleteFromPrimitiveList/<field>`` and ``$setElementOrder/<field>``. Lists without a merge strategy are replaced.

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
# Stands for an item that the patch deletes, so that the places of the others stay.
_GONE: Any = object()
Schema = dict[str, Any]


def apply_strategic_patch(target: dict[str, Any], patch: dict[str, Any], schema: Schema) -> Any:
    """The patched object; changes neither argument.

    ``schema`` is an OpenAPI v3 schema with ``x-kubernetes-patch-merge-key`` and ``x-kubernetes-patch-strategy``.

    Raises:
        ApiError: 400 for a malformed patch.
    """
    return _merge_object(target, patch, schema)


def _merge_object(target: Any, patch: dict[str, Any], schema: Schema) -> Any:
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise malformed(f"unknown $patch directive {directive!r}")
    result = dict(target) if isinstance(target, dict) else {}
    _retain(result, patch)
    for key, value in patch.items():
        if key in (_PATCH, _RETAIN) or key.startswith((_DELETE, _ORDER)):
            continue
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge_value(result.get(key), value, _child(schema, key))
    _delete_values(result, patch)
    _order(result, patch, schema)
    return result


def _merge_value(target: Any, value: Any, schema: Schema) -> Any:
    if isinstance(value, dict):
        return _merge_object(target, value, schema)
    if isinstance(value, list):
        return _merge_list(target if isinstance(target, list) else [], value, schema)
    return value


def _merge_list(target: list[Any], patch: list[Any], schema: Schema) -> list[Any]:
    key = schema.get("x-kubernetes-patch-merge-key")
    if "merge" not in str(schema.get("x-kubernetes-patch-strategy", "")).split(","):
        return [_plain(item, schema) for item in patch if not _is_directive(item)]
    if not key:
        if not all(isinstance(item, str | int | float | bool) for item in patch):
            raise malformed("a list of plain values cannot be merged with objects")
        present = Members(target)
        return [*target, *(item for item in patch if item not in present)]
    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" and len(item) == 1 for item in patch):
        return [_plain(item, schema) for item in patch if not _is_directive(item)]
    result: list[Any] = list(target)
    places = _places(result, key)
    items = schema.get("items", {})
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise malformed(f"map: {item!r:.200} does not contain declared merge key: {key}")
        positions = places.setdefault(frozen(item[key]), deque())
        if item.get(_PATCH) == "delete":
            if positions:
                result[positions.popleft()] = _GONE
        elif positions:
            result[positions[0]] = _merge_object(result[positions[0]], item, items)
        else:
            positions.append(len(result))
            result.append(_merge_object({}, item, items))
    return [item for item in result if item is not _GONE]


def _places(items: list[Any], key: str) -> dict[Any, deque[int]]:
    """Where the items of each identity are, in their order."""
    places: dict[Any, deque[int]] = {}
    for index, item in enumerate(items):
        if isinstance(item, dict):
            places.setdefault(frozen(item.get(key)), deque()).append(index)
    return places


def _plain(item: Any, schema: Schema) -> Any:
    return _merge_object({}, item, schema.get("items", {})) if isinstance(item, dict) else item


def _is_directive(item: Any) -> bool:
    return isinstance(item, dict) and _PATCH in item and (len(item) == 1 or item[_PATCH] == "delete")


def _retain(result: dict[str, Any], patch: dict[str, Any]) -> None:
    kept = patch.get(_RETAIN)
    if kept is None:
        return
    if not isinstance(kept, list):
        raise malformed("$retainKeys must be a list")
    names = Members(kept)
    for key in [one for one in result if one not in names]:
        del result[key]


def _delete_values(result: dict[str, Any], patch: dict[str, Any]) -> None:
    for directive, values in patch.items():
        if not directive.startswith(_DELETE):
            continue
        key = directive.removeprefix(_DELETE)
        if not isinstance(values, list):
            raise malformed(f"{directive} must be a list")
        if isinstance(result.get(key), list):
            dropped = Members(values)
            result[key] = [item for item in result[key] if item not in dropped]


def _order(result: dict[str, Any], patch: dict[str, Any], schema: Schema) -> None:
    for directive, desired_order in patch.items():
        if not directive.startswith(_ORDER):
            continue
        key = directive.removeprefix(_ORDER)
        if not isinstance(desired_order, list):
            raise malformed(f"{directive} must be a list")
        if isinstance(result.get(key), list):
            merge_key = _child(schema, key).get("x-kubernetes-patch-merge-key")
            result[key] = _sorted(result[key], [_identity(one, merge_key) for one in desired_order], merge_key)


def _sorted(items: list[Any], wanted: list[Any], merge_key: str | None) -> list[Any]:
    """Items that the writer named in its order; the others stay behind the item that they followed."""
    groups: dict[int, deque[Any]] = {}
    ranks: dict[Any, int] = {}
    for rank, identity in enumerate(wanted):
        ranks.setdefault(frozen(identity), rank)
    last = -1
    for item in items:
        rank_of_item = ranks.get(frozen(_identity(item, merge_key)))
        if rank_of_item is not None:
            last = rank_of_item
            groups.setdefault(last, deque()).appendleft(item)
        else:
            groups.setdefault(last, deque()).append(item)
    return [item for rank in sorted(groups) for item in groups[rank]]


def _identity(item: Any, merge_key: str | None) -> Any:
    return item.get(merge_key) if merge_key and isinstance(item, dict) else item


def _child(schema: Schema, key: str) -> Schema:
    child = schema.get("properties", {}).get(key)
    if child is None:
        child = schema.get("additionalProperties")
    return child if isinstance(child, dict) else {}
