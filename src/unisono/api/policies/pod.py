"""Rules of pods in CEL: the budgets of disruptions that their annotations name."""

from __future__ import annotations

from unisono.api import messages
from unisono.api.keys import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE
from unisono.api.policies.rule import Rule, text

_BUDGETS = (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE)
_NOTES = "object.metadata.annotations"

HAS_BUDGET = (
    f"object.spec.schedulerName == 'volcano' && has({_NOTES}) && "
    f"({' || '.join(f'{text(key)} in {_NOTES}' for key in _BUDGETS)})"
)
"""The pod is Volcano's and names a budget; hardly any does."""


def budget_rules() -> tuple[Rule, ...]:
    """A budget is a positive integer or a percentage, and there is only one."""
    rules = []
    for key in _BUDGETS:
        value = f"{_NOTES}[{text(key)}]"
        absent = f"!({text(key)} in {_NOTES})"
        share = f"{value}.matches('^[0-9]{{1,9}}%$')"
        good_share = f"{value}.matches('^0*[1-9][0-9]?%$')"
        good_number = f"({value}.matches('^[0-9]{{1,9}}$') && {value}.matches('[1-9]'))"
        where = text(f'metadata.annotations[{key}]: invalid value <"')
        for fine, why in (
            (f"{share} || {good_number}", messages.BUDGET_NUMBER),
            (f"!{share} || {good_share}", messages.BUDGET_SHARE),
        ):
            rest = text(f'"> for {key}, {why}')
            rules.append(Rule(f"{absent} || {fine}", f"{where} + {value} + {rest}"))
    both = " && ".join(f"{text(key)} in {_NOTES}" for key in _BUDGETS)
    rules.append(Rule(f"!({both})", text(f"metadata.annotations: {messages.several_budgets(_BUDGETS)}")))
    return tuple(rules)
