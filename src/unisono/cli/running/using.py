"""What the processes of jobs use now, for ``unisono run --watch``: processors, memory and GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unisono.api.groups.resource_metrics import POD_METRICS
from unisono.api.quantity import QuantityError
from unisono.api.resources import add, pod_requests, resource_list
from unisono.errors import ApiError
from unisono.history.records import gpus
from unisono.sdk.follow.log_lines import short_name

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient
    from unisono.sdk.follow.events import Target
    from unisono.sdk.state.observing import Observation

_USE, _USED, _FREE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
_GIB, _MIB_OF_GIB = 1 << 30, 1024


@dataclass(frozen=True, slots=True)
class Card:
    """What one GPU does; ``use`` in percent, memory in MiB."""

    use: float
    used: float
    free: float


Cards = Mapping[tuple[str, str], Sequence[Card]]
"""The cards of each pod, by namespace and name."""


def cards_of(metrics: str) -> Cards:
    """Cards that say which pod has them, of a text of metrics in the words of DCGM's exporter."""
    from prometheus_client.parser import text_string_to_metric_families

    values: dict[tuple[str, str, str], dict[str, float]] = {}
    lines = "\n".join(line for line in metrics.splitlines() if line.startswith((_USE, _USED, _FREE)))
    try:
        for family in text_string_to_metric_families(lines):
            for sample in family.samples:
                labels = sample.labels
                if labels.get("pod"):
                    card = labels.get("namespace", ""), labels["pod"], labels.get("UUID", labels.get("gpu", ""))
                    values.setdefault(card, {})[sample.name] = sample.value
    except ValueError:
        return {}
    cards: dict[tuple[str, str], list[Card]] = {}
    for (namespace, pod, _), readings in values.items():
        card_told = Card(readings.get(_USE, 0.0), readings.get(_USED, 0.0), readings.get(_FREE, 0.0))
        cards.setdefault((namespace, pod), []).append(card_told)
    return cards


def use_text(
    name: str,
    namespace: str,
    pods: Sequence[str],
    used: Mapping[tuple[str, str], Mapping[str, int]],
    cards: Cards,
    asked: int,
) -> str:
    """One line of what a job uses; empty where nothing of it is measured.

    Args:
        name: of the job, which is left out of its processes' names.
        namespace: of the job.
        pods: that run.
        used: measured use by pod, in engine units.
        cards: of all pods.
        asked: GPUs that the pods ask for.
    """
    total: dict[str, int] = {}
    for pod in pods:
        add(total, used.get((namespace, pod), {}))
    parts = []
    if total:
        parts.append(f"{total.get('cpu', 0) / 1000:.3g} CPUs, {total.get('memory', 0) / _GIB:.3g} GiB")
    own = [(pod, card) for pod in pods for card in cards.get((namespace, pod), ())]
    if own:
        mean = sum(card.use for _, card in own) / len(own)
        least_pod, least = min(own, key=lambda each: each[1].use)
        taken = sum(card.used for _, card in own) / _MIB_OF_GIB
        there = sum(card.used + card.free for _, card in own) / _MIB_OF_GIB
        lagging = f" (least: {short_name(least_pod, name)} {least.use:.0f} %)" if len(own) > 1 else ""
        count = f"{len(own)} GPUs" if len(own) > 1 else "GPU"
        parts.append(f"{count} at {mean:.0f} %{lagging}, {taken:.3g} of {there:.3g} GiB of their memory")
    elif asked and pods:
        parts.append("this server does not tell the use of its GPUs")
    return "; ".join(parts)


async def uses(client: HttpClient, seen: Mapping[Target, Observation]) -> dict[str, str]:
    """A line for each job that runs, by its title."""
    running = {
        target: [pod for pod in found.pods if pod.status.phase == "Running"]
        for target, found in seen.items()
        if not found.view.ended
    }
    used: dict[tuple[str, str], dict[str, int]] = {}
    for namespace in sorted({target.namespace for target, pods in running.items() if pods}):
        used |= await _measured(client, namespace)
    asked = {target: sum(gpus(pod_requests(pod.spec)) for pod in pods) // 1000 for target, pods in running.items()}
    cards = await _cards(client) if any(asked.values()) else {}
    texts_by_title = {}
    for target, pods in running.items():
        names = [pod.metadata.name for pod in pods]
        if text := use_text(target.name, target.namespace, names, used, cards, asked[target]):
            texts_by_title[seen[target].view.title] = text
    return texts_by_title


async def _measured(client: HttpClient, namespace: str) -> dict[tuple[str, str], dict[str, int]]:
    try:
        measured = (await client.list(POD_METRICS, namespace)).items
    except ApiError:
        return {}
    totals = {}
    for each in measured:
        total: dict[str, int] = {}
        for container in each.containers or ():
            try:
                add(total, resource_list(container.usage))
            except QuantityError:
                continue
        totals[namespace, each.metadata.name] = total
    return totals


async def _cards(client: HttpClient) -> Cards:
    """Cards of the server's own machine; a server elsewhere tells none."""
    try:
        status, _, body = await client.request("GET", "/metrics", accept="text/plain")
    except ApiError:
        return {}
    return cards_of(body.decode(errors="replace")) if status == 200 else {}
