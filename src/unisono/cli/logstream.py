"""Log lines of pods; the SDK reads them."""

from __future__ import annotations

from unisono.sdk.logstream import JOB_LABEL, containers, lines, short_name, texts

__all__ = ["JOB_LABEL", "containers", "lines", "short_name", "texts"]
