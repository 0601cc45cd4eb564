"""What is measured of pods and cards, looked at from time to time: who holds cards and lets them lie idle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from unisono.api.groups.resource_metrics import POD_METRICS
from unisono.api.pod_states import has_ended
from unisono.api.quantity import QuantityError
from unisono.api.resources import resource_list
from unisono.api.selecting import pod_group_of
from unisono.api.verdict import job_name
from unisono.dashboard.views.nodes import requests_of
from unisono.errors import ApiError
from unisono.history.records import gpus

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.api.groups.resource_metrics import PodMetrics
    from unisono.kube.http import HttpClient

# A process that keeps a card busy uses more CPU time than this (milli-cores of one pod).
_QUIET_MILLI = 50
MOST_PODS = 20_000
"""Where more pods are there, nothing is measured for the page: the list of what they use would hold all views up."""
# Where a server has no metrics of cards, it is asked again after so many looks.
_LOOKS_WITHOUT = 10
_GPU_USE = "DCGM_FI_DEV_GPU_UTIL"


class Holding(NamedTuple):
    """A running pod with cards, and the job that it belongs to (``namespace/name``)."""

    pod: str
    job: str


def holding(pods: Iterable[Pod]) -> list[Holding]:
    """Pods that run and hold cards."""
    holdings = []
    for pod in pods:
        if pod.spec.node_name and pod.status.phase == "Running" and not has_ended(pod) and gpus(requests_of(pod.spec)):
            holdings.append(Holding(pod.key, job_name(pod_group_of(pod) or pod.key)))
    return holdings


class Measured:
    """What the looks have shown.

    Args:
        client: with the viewer's credentials.
        now: seconds since 1970.

    Attributes:
        quiet: jobs whose pods with cards all do nothing, by name, and since when.
        cards: mean use of a node's cards, 0 to 1, where the server tells it.
    """

    def __init__(self, client: HttpClient, now: Callable[[], float]) -> None:
        self._client, self._now = client, now
        self._without = 0
        self.quiet: dict[str, float] = {}
        self.cards: dict[str, float] = {}

    async def look(self, held: Collection[Holding], namespaces: Collection[str | None]) -> bool:
        """Ask once; answers whether something is different from before.

        Args:
            held: pods with cards.
            namespaces: where the viewer may look; None stands for everywhere.
        """
        before = dict(self.quiet), dict(self.cards)
        self.note(held, await self._used(held, namespaces))
        await self._look_at_cards()
        return before != (self.quiet, self.cards)

    def note(self, held: Collection[Holding], used: dict[str, int]) -> None:
        """One look: milli-cores by pod; a job of which a pod is not measured is not said to be idle."""
        busy, seen = set(), set()
        for each in held:
            seen.add(each.job)
            if used.get(each.pod, _QUIET_MILLI) >= _QUIET_MILLI:
                busy.add(each.job)
        now = self._now()
        self.quiet = {job: self.quiet.get(job, now) for job in seen - busy}

    async def _used(self, held: Collection[Holding], namespaces: Collection[str | None]) -> dict[str, int]:
        usage: dict[str, int] = {}
        if not held:
            return usage
        pod_keys = {each.pod for each in held}
        for namespace in namespaces:
            try:
                measured = (await self._client.list(POD_METRICS, namespace)).items
            except ApiError:
                continue
            for each in measured:
                if each.key in pod_keys:
                    usage[each.key] = _milli(each)
        return usage

    async def _look_at_cards(self) -> None:
        """Cards of one machine: its server tells their use as DCGM's exporter does."""
        if self._without:
            self._without -= 1
            return
        try:
            status, _, body = await self._client.request("GET", "/metrics", accept="text/plain")
        except ApiError:
            status, body = 503, b""
        self.cards = card_use(body.decode(errors="replace")) if status == 200 else {}
        self._without = 0 if self.cards else _LOOKS_WITHOUT


def _milli(measured: PodMetrics) -> int:
    total = 0
    for container in measured.containers or ():
        try:
            total += resource_list(container.usage).get("cpu", 0)
        except QuantityError:
            return _QUIET_MILLI
    return total


def card_use(text: str) -> dict[str, float]:
    """Mean use of the cards of each node, 0 to 1, of a text of metrics."""
    use_by_node: dict[str, list[float]] = {}
    lines = "\n".join(line for line in text.splitlines() if _GPU_USE in line)
    try:
        for family in text_string_to_metric_families(lines):
            for sample in family.samples:
                use_by_node.setdefault(sample.labels.get("Hostname", ""), []).append(sample.value)
    except ValueError:
        return {}
    return {node: round(sum(values) / len(values) / 100, 4) for node, values in use_by_node.items() if node}
