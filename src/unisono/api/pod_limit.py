"""The limit on pods of one object; a leaf, so that commands can name it without reading every kind."""

from __future__ import annotations

MOST_PODS = 50_000
"""Pods that one object may ask for, unless an installation says otherwise."""
