"""Log lines of pods; the SDK reads them."""

from __future__ import annotations

from unisono.sdk.logstream import containers, lines, short_name, texts

__all__ = ["containers", "lines", "short_name", "texts"]
