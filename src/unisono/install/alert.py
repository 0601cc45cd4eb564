"""What an alert rule says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert rule.

    Attributes:
        name: of the alert.
        expression: PromQL; the alert fires for each series that it answers.
        holds_for: how long the expression must hold.
        severity: ``critical`` (no pod is scheduled, or soon), ``warning`` or ``info``.
        summary: what is wrong, with the series' labels.
        action: what to do.

    """

    name: str
    expression: str
    holds_for: str
    severity: str
    summary: str
    action: str
