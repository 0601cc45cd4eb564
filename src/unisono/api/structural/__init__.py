"""Structural schemas of CustomResourceDefinitions: what they may say, and pruning, defaulting and checking by them."""

from __future__ import annotations

from unisono.api.structural.node import Node, compile_schema
from unisono.api.structural.pruning import add_defaults, drop_nulls, prune
from unisono.api.structural.values import check_lists, check_value

__all__ = ["Node", "add_defaults", "check_lists", "check_value", "compile_schema", "drop_nulls", "prune"]
