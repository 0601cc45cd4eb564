"""Verdicts for people, one fact per line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unisono.api.verdict import Verdict


def verdict_lines(verdict: Verdict, title: str = "") -> list[str]:
    """A verdict for people, one fact per line.

    Args:
        verdict: as the scheduler wrote it.
        title: what waits, as the user named it; without it the job that the verdict names.

    """
    from unisono.api.verdict import job_name
    from unisono.sdk.verdict_facts import verdict_facts

    who = title or job_name(verdict.job)
    queue = f" in queue {verdict.queue}" if verdict.queue else ""
    lines = [f"{who} waits{queue}: {verdict.message}"]
    return lines + [f"  {name + ':':<8} {text}" for name, text in verdict_facts(verdict)]
