"""What the pods of a target use, as ``metrics.k8s.io`` tells."""

from __future__ import annotations

from unisono.api.groups.autoscaling import (
    ContainerResourceMetricSource,
    ContainerResourceMetricStatus,
    MetricStatus,
    MetricValueStatus,
    ResourceMetricSource,
    ResourceMetricStatus,
)
from unisono.api.groups.resource_metrics import POD_METRICS
from unisono.api.kinds import PODS
from unisono.api.resources import to_wire
from unisono.controllers.autoscaling.targets import Target, selector_of
from unisono.controllers.autoscaling.use import NoUse, Used, amount_of, used_of
from unisono.controllers.metrics import MetricError
from unisono.errors import ApiError
from unisono.kube.client import Client


async def read_use(
    client: Client,
    namespace: str,
    target: Target,
    source: ResourceMetricSource | None,
    container: ContainerResourceMetricSource | None,
) -> tuple[Used, MetricStatus]:
    """What the pods use, and what to show of it; one of the two sources is given.

    Raises:
        MetricError: it cannot be known, or cannot be compared with the target.

    """
    given = source or container
    assert given is not None
    selector = selector_of(target)
    if not selector:
        raise MetricError("selector is required")
    try:
        pods = (await client.list(PODS, namespace, label_selector=selector)).items
        metrics = (await client.list(POD_METRICS, namespace, label_selector=selector)).items
    except ApiError as error:
        raise MetricError(f"unable to get metrics for resource {given.name}: {error}") from error
    percent, average = given.target.average_utilization, given.target.average_value
    try:
        amount = amount_of(given.name, str(average)) if percent is None and average is not None else None
        if percent is None and amount is None:
            raise NoUse("it states neither averageUtilization nor averageValue")
        use = used_of(
            pods,
            {each.key: each for each in metrics},
            given.name,
            container=container.container if container is not None else "",
            percent=percent,
            amount=amount,
        )
    except NoUse as error:
        raise MetricError(str(error)) from error
    mean = use.total // max(use.measured, 1)
    value = MetricValueStatus(average_value=to_wire({given.name: mean})[given.name])
    if percent is not None:
        wanted = sum(pod.wanted for pod in use.pods if pod.used is not None)
        value.average_utilization = round(use.total / max(wanted, 1e-9) * percent)
    if container is not None:
        shown = ContainerResourceMetricStatus(name=given.name, current=value, container=container.container)
        return use, MetricStatus(type="ContainerResource", container_resource=shown)
    return use, MetricStatus(type="Resource", resource=ResourceMetricStatus(name=given.name, current=value))
