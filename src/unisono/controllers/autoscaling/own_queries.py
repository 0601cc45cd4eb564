"""Metrics for which an autoscaler names the query itself, by annotations.

The form is that of kube-metrics-adapter, for the types external, object and pods:
``metric-config.TYPE.NAME.prometheus/query`` and ``metric-config.TYPE.NAME.prometheus/prometheus-server``.
"""

from __future__ import annotations

from unisono.api.groups.autoscaling import (
    ExternalMetricStatus,
    HorizontalPodAutoscaler,
    MetricIdentifier,
    MetricSpec,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
    ObjectMetricStatus,
    PodsMetricStatus,
)
from unisono.api.quantity import parse_quantity
from unisono.api.triggers import LONGEST_QUERY
from unisono.controllers.autoscaling.reading import Question
from unisono.controllers.autoscaling.recommend import Measured
from unisono.controllers.metrics import MetricError

QUERY, SERVER = "query", "prometheus-server"


def identifier_of(metric: MetricSpec) -> MetricIdentifier | None:
    """The metric that a specification of type External, Object or Pods names."""
    source = {"External": metric.external, "Object": metric.object, "Pods": metric.pods}.get(metric.type)
    return source.metric if source is not None else None


def own_question(autoscaler: HorizontalPodAutoscaler, metric: MetricSpec) -> Question | None:
    """The query that the annotations give for a metric; None where they give none.

    Raises:
        MetricError: there is a query, and no server for it.

    """
    named = identifier_of(metric)
    if named is None:
        return None
    notes = autoscaler.metadata.annotations or {}
    prefix = f"metric-config.{metric.type.lower()}.{named.name}.prometheus/"
    query, server = notes.get(prefix + QUERY), notes.get(prefix + SERVER, "")
    if query is None:
        return None
    if not server.startswith(("http://", "https://")):
        raise MetricError(f"the annotation {prefix}{SERVER} must be a URL such as http://prometheus:9090")
    if len(query) > LONGEST_QUERY:
        raise MetricError(f"the annotation {prefix}{QUERY} is longer than {LONGEST_QUERY} characters")
    return Question(server, query)


def target_of(metric: MetricSpec) -> MetricTarget:
    """What the metric should be."""
    source = metric.external or metric.object or metric.pods
    return source.target if source is not None else MetricTarget()


def measured(metric: MetricSpec, value: float) -> Measured:
    """A value as the recommendation counts it; for type Pods it is that of all pods together."""
    target = target_of(metric)
    average = target.average_value is not None
    wanted = target.average_value if average else target.value
    return Measured(value, max(float(parse_quantity(wanted or 1)), 1e-9), average)


def status_of(metric: MetricSpec, current: MetricValueStatus) -> MetricStatus:
    """The present value, as the autoscaler's status shows it."""
    named = identifier_of(metric) or MetricIdentifier()
    if metric.object is not None:
        told = ObjectMetricStatus(metric=named, current=current, described_object=metric.object.described_object)
        return MetricStatus(type="Object", object=told)
    if metric.pods is not None:
        return MetricStatus(type="Pods", pods=PodsMetricStatus(metric=named, current=current))
    return MetricStatus(type="External", external=ExternalMetricStatus(metric=named, current=current))
