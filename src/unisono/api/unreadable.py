"""Errors of reading untrusted JSON."""

from __future__ import annotations

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Its form, its bytes, and its depth: msgspec has an error of its own for the first alone."""
