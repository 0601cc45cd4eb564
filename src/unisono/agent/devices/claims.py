"""Cards of this machine that a pod has through its resource claims, by container."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping

from unisono.agent.devices.slices import NVIDIA, card_name
from unisono.agent.environment.variables import MissingSource
from unisono.api.core import Container, Pod, ResourceClaim
from unisono.api.kinds import RESOURCE_CLAIMS
from unisono.errors import NotFound
from unisono.kube.client import Client

Results = list[tuple[str, str]]
"""(request, card) of one claim."""


async def claimed_cards(client: Client, pod: Pod, node: str, cards: list[str]) -> dict[str, list[str]]:
    """Cards by container, for containers that use claims of the pod.

    Args:
        client: the API.
        pod: a pod on this node.
        node: name of this node.
        cards: ids of the machine's cards, in its order.

    Raises:
        MissingSource: a claim is not there, or nothing was given for it yet.
        ApiError: the API did not answer.
    """
    backed = pod.status.extended_resource_claim_status
    if not pod.spec.resource_claims and backed is None:
        return {}
    known = {card_name(index): card for index, card in enumerate(cards)}
    given = {entry: [*_results(claim, node, known)] async for entry, claim in _claims(client, pod)}
    containers = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    found = {each.name: cards_of(each, given) for each in containers}
    if backed is not None:
        results = [*_results(await _allocated(client, pod, backed.resource_claim_name), node, known)]
        for mapping in backed.request_mappings or ():
            found[mapping.container_name] += [card for request, card in results if request == mapping.request_name]
    return {name: cards for name, cards in found.items() if cards}


def cards_of(container: Container, given: Mapping[str, Results]) -> list[str]:
    """Cards that a container may use: those of the claims, or of the requests of claims, that it names.

    Args:
        container: a container.
        given: what the pod's claims were given, by their names in the pod.
    """
    found: dict[str, None] = {}
    for reference in container.resources.claims or ():
        for request, card in given.get(reference.name, ()):
            if not reference.request or request.partition("/")[0] == reference.request:
                found[card] = None
    return list(found)


async def _claims(client: Client, pod: Pod) -> AsyncIterator[tuple[str, ResourceClaim]]:
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses or ()}
    for entry in pod.spec.resource_claims or ():
        name = entry.resource_claim_name or made.get(entry.name)
        if name is None:
            if entry.name in made:
                continue
            raise MissingSource(f"the resource claim {entry.name} of the pod has not been created yet")
        yield entry.name, await _allocated(client, pod, name)


async def _allocated(client: Client, pod: Pod, name: str) -> ResourceClaim:
    try:
        claim = await client.get(RESOURCE_CLAIMS, name, pod.metadata.namespace)
    except NotFound:
        raise MissingSource(f'resourceclaim "{name}" not found') from None
    if claim.status.allocation is None:
        raise MissingSource(f'resourceclaim "{name}" has no devices yet')
    if not any(each.uid == pod.metadata.uid for each in claim.status.reserved_for or ()):
        raise MissingSource(f'resourceclaim "{name}" is not reserved for the pod')
    return claim


def _results(claim: ResourceClaim, node: str, cards: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    allocation = claim.status.allocation
    for result in (allocation.devices.results or ()) if allocation is not None else ():
        if result.driver != NVIDIA or result.pool != node:
            continue
        if result.device not in cards:
            raise MissingSource(f'the device {result.device} of resourceclaim "{claim.metadata.name}" is gone')
        yield result.request, cards[result.device]
