"""What a verdict says besides its message, one fact per name (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.api.resources import amounts_text

if TYPE_CHECKING:
    from unisono.api.verdict import Holder, Verdict


def verdict_facts(verdict: Verdict) -> list[tuple[str, str]]:
    """Names and texts, those that people look for first; what is not known is left out."""
    facts = [
        ("cause", verdict.cause),
        ("need", amounts_text(verdict.need)),
        ("have", amounts_text(verdict.have)),
        ("gang", _gang(verdict)),
        ("nodes", _nodes(verdict)),
        ("held by", "; ".join(_holder(holder) for holder in verdict.holders)),
        ("try", verdict.suggestion),
        ("or end", _pods(verdict)),
        ("spared", verdict.spared),
        ("off", _off(verdict)),
    ]
    return [(name, text) for name, text in facts if text]


def _pods(verdict: Verdict) -> str:
    """Pods of lower rank without which the job would run."""
    pods = verdict.would_run_after
    more = verdict.would_run_after_count - len(pods)
    named = ", ".join(pods) + (f" and {more} more" if more > 0 else "")
    return f"{named} (lower priority, or of a queue above its share)" if pods else ""


def _off(verdict: Verdict) -> str:
    names = ", ".join(verdict.plugins_off)
    return f"plug-in {names} failed or was too slow and was switched off for the cycle" if names else ""


def _gang(verdict: Verdict) -> str:
    needed, placeable = verdict.tasks_needed, verdict.tasks_placeable
    if placeable > needed > 0:
        return f"{placeable} pods have found a place, at least {needed} needed"
    return f"{placeable} of {needed} {'pod' if needed == 1 else 'pods'} would find a place" if needed else ""


def _nodes(verdict: Verdict) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in verdict.reasons.items())
    return f"{verdict.nodes} looked at: {reasons}" if reasons else ""


def _holder(holder: Holder) -> str:
    held = amounts_text({name: amount for name, amount in holder.amounts.items() if amount})
    name = f"{holder.kind} {holder.name}"
    return f"{name} ({held})" if held else name
