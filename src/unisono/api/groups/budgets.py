"""How much may be used within a time, and what it costs (``quota.unisono.io``): Budgets and PriceLists."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from unisono.api.base import Base, Condition, LongName, Object, Required, ResourceList, Time

PERIODS = ("Hour", "Day", "Week", "Month", "Year")
HARD, SOFT = "Hard", "Soft"
WHILE_LEFT, IF_IT_FITS = "WhileLeft", "IfItFits"
FINISH, EVICT = "Finish", "Evict"

_Names = Annotated[list[str], Meta(extra_json_schema={"maxItems": 1000})]
_Percents = Annotated[list[int], Meta(extra_json_schema={"maxItems": 10})]
Decimal = str


class BudgetSpec(Base):
    """Who may use how much, and what follows.

    Attributes:
        queues: jobs of these queues, and of those below them.
        namespaces: or jobs of these namespaces; a ``*`` at the end stands for any ending.
        users: or jobs that these users have submitted.
        amounts: by resource how many hours of one, such as ``nvidia.com/gpu: 1000``; ``money`` by the PriceList.
        period: after it the budget begins anew: Hour, Day, Week, Month or Year; without it, it is for all time.
        half_life: in place of a period: what was used counts half after so long, such as ``168h``.
        start: nothing counts that was used before; without it, before the Budget was created.
        time_zone: where periods begin, such as ``Europe/Berlin``; UTC without it.
        mode: Hard: nothing starts once it is used up; Soft: jobs come after those whose budgets have something left.
        starts: of a hard one: WhileLeft: while anything is left, or IfItFits: what jobs are known to need is left.
        running: of a hard one: what becomes of running pods once it is used up: Finish, or Evict.
        notice: how long pods are told before they are evicted that do not say it themselves, such as ``10m``.
        least: pods that end sooner count as if they had run for so long, such as ``5m``; evicted ones do not.
        warn_at: percentages of which an event tells when they are reached.
        price_list: by which PriceList money is counted; ``default`` without it.
    """

    queues: _Names | None = None
    namespaces: _Names | None = None
    users: _Names | None = None
    amounts: ResourceList | None = None
    period: Annotated[str, Meta(extra_json_schema={"enum": [*PERIODS]})] | None = None
    half_life: str | None = None
    start: Time | None = None
    time_zone: str | None = None
    mode: Annotated[str, Meta(extra_json_schema={"enum": [HARD, SOFT], "default": HARD})] | None = None
    starts: Annotated[str, Meta(extra_json_schema={"enum": [WHILE_LEFT, IF_IT_FITS]})] | None = None
    running: Annotated[str, Meta(extra_json_schema={"enum": [FINISH, EVICT]})] | None = None
    notice: str | None = None
    least: str | None = None
    warn_at: _Percents | None = None
    price_list: LongName | None = None


class BudgetStatus(Base):
    """What has been used; amounts are decimal numbers of hours, or of money.

    Attributes:
        counted: up to this moment everything is in ``used``.
        pods: up to this resourceVersion the controller has heard of all changes of pods.
        period_start: when the present period began, or counting did.
        period_end: when the next one begins.
        used: in this period, or with the half-life.
        left: of ``spec.amounts`` as this is written, a moment after ``counted``; below zero where more was used.
        rate: how much is used in an hour, as of ``counted``.
        previous: what the last period used.
        exhausted_at: when it is used up, at the present rate; absent where that is not in this period.
        warned: the highest percentage of ``warnAt`` that was told in this period.
        conditions: ``UsedUp``: whether nothing is left; ``Counted``: whether all use is known.
    """

    counted: Time | None = None
    pods: str | None = None
    period_start: Time | None = None
    period_end: Time | None = None
    used: dict[str, Decimal] | None = None
    left: dict[str, Decimal] | None = None
    rate: dict[str, Decimal] | None = None
    previous: dict[str, Decimal] | None = None
    exhausted_at: Time | None = None
    warned: int | None = None
    conditions: list[Condition] | None = None


class Budget(Object):
    """How much queues, namespaces and users may use within a time."""

    spec: BudgetSpec = msgspec.field(default_factory=BudgetSpec)
    status: BudgetStatus = msgspec.field(default_factory=BudgetStatus)


class Price(Base):
    """What one of a resource costs in an hour.

    Attributes:
        resource: such as ``nvidia.com/gpu``.
        per_hour: a decimal number; of resources in bytes for one GiB.
        node_selector: only on nodes with these labels, such as those of a model of card, or of spot machines.
        priority_classes: only for jobs of these PriorityClasses.
    """

    resource: Required = ""
    per_hour: Annotated[str, Meta(extra_json_schema={"maxLength": 32}, extra={"required": True})] = ""
    node_selector: dict[str, str] | None = None
    priority_classes: _Names | None = None


class PriceListSpec(Base):
    """Prices; of those of one resource the first one counts that is for the node and the job.

    Attributes:
        currency: how money is written, such as ``EUR``.
        prices: of resources that cost anything.
    """

    currency: Annotated[str, Meta(extra_json_schema={"maxLength": 16})] | None = None
    prices: Annotated[list[Price], Meta(extra_json_schema={"maxItems": 200})] | None = None


class PriceList(Object):
    """What resources cost."""

    spec: PriceListSpec = msgspec.field(default_factory=PriceListSpec)
