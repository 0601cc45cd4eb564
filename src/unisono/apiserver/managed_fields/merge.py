"""Merging an applied configuration into an object, and taking fields out of it."""

from __future__ import annotations

from typing import Any

from unisono.apiserver.managed_fields import schemas
from unisono.apiserver.managed_fields.paths import MEMBER, Paths, Tree, to_tree
from unisono.apiserver.managed_fields.schemas import Schema


def merge(live: Any, config: Any, schema: Schema) -> Any:
    """``live`` with what ``config`` says; shares parts with both, changes neither.

    ``fields_of`` has accepted the configuration: its list items have keys, and no two the same.
    """
    if type(live) is not type(config) or schemas.atomic(config, schema):
        return config
    if isinstance(config, dict):
        result = dict(live)
        for name, value in config.items():
            below = schemas.child(schema, name)
            result[name] = merge(live[name], value, below) if name in live else value
        return result
    return _merge_lists(live, config, schema)


def _merge_lists(live: list[Any], config: list[Any], schema: Schema) -> list[Any]:
    """Items of the configuration in its order; others stay before the item that followed them."""
    wanted = {schemas.element(each, schema): each for each in config}
    below = schemas.items(schema)
    before = [(schemas.element(each, schema), each) for each in live]
    known = schemas.index(live, schema)
    result, position = [], 0
    for element, value in wanted.items():
        values = known.get(element, [])
        while position < len(before):
            if before[position][0] not in wanted:
                result.append(before[position][1])
            elif not values or before[position][0] == element:
                # The turn of a shared item: items that only the configuration has come before it.
                break
            position += 1
        # An item that the object holds several times is replaced by the one of the configuration.
        result.append(merge(values[0], value, below) if len(values) == 1 else value)
    result.extend(each for element, each in before[position:] if element not in wanted)
    return result


def remove(value: Any, members: Paths, schema: Schema) -> Any:
    """``value`` without the fields of ``members``, and without what is below them."""
    return _remove(value, to_tree(members), schema) if members else value


def _remove(value: Any, tree: Tree, schema: Schema) -> Any:
    if not isinstance(value, dict | list) or schemas.atomic(value, schema):
        return value
    if isinstance(value, dict):
        kept = {}
        for name, each in value.items():
            node = tree.get(f"f:{name}")
            if node is None:
                kept[name] = each
            elif not _member(node):
                kept[name] = _remove(each, node, schemas.child(schema, name))
        return kept
    left = []
    for each in value:
        node = tree.get(schemas.element(each, schema))
        if node is None:
            left.append(each)
        elif not _member(node):
            left.append(_remove(each, node, schemas.items(schema)))
    return left


def _member(node: Tree) -> bool:
    return not node or MEMBER in node
