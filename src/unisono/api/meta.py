"""Shared parts of ``meta.k8s.io/v1``: label selectors and conditions."""

from __future__ import annotations

from unisono.api.base import Base
from unisono.api.fields import Required, Time


class LabelSelectorRequirement(Base):
    """``key operator values``; operators are In, NotIn, Exists, DoesNotExist."""

    key: Required = ""
    operator: Required = ""
    values: list[str] | None = None


class LabelSelector(Base):
    """All of ``match_labels`` and all of ``match_expressions``; empty selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class Condition(Base):
    """Standard condition of a kind's status."""

    type: Required = ""
    status: Required = ""
    observed_generation: int | None = None
    last_transition_time: Time | None = None
    reason: str | None = None
    message: str | None = None
