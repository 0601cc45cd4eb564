"""A gang that has too few pods because a ResourceQuota lets no more be created."""

from __future__ import annotations

from typing import Any

import pytest
from test_verdict_changes import GANG, check

from support.build import amounts, cluster, config, flatten, gang, group, node, placed, pod, quota, schedule
from unisono.api import kinds
from unisono.api.core import ResourceQuota, ResourceQuotaStatus
from unisono.cluster.state import ClusterState
from unisono.engine.changes import CreatePods, LowerMinAvailable, RaiseQuota, Together
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.verdict import Cause, Verdict


def used(limits: ResourceQuota, **taken: Any) -> ResourceQuota:
    """With what its controller has counted."""
    limits.status = ResourceQuotaStatus(hard=limits.spec.hard, used=amounts(taken))  # type: ignore[arg-type]
    return limits


def scoped(limits: ResourceQuota, *scopes: str) -> ResourceQuota:
    """With scopes."""
    limits.spec.scopes = list(scopes)
    return limits


def verdict_of(*things: Any) -> Verdict:
    (verdict,) = [one for one in check(flatten([node("a"), *things]), GANG) if one.job == "ns/j"]
    return verdict


SHORT = "Not enough valid tasks for gang-scheduling, valid: 2, min: 3"


def test_the_quota_is_named_with_its_numbers() -> None:
    verdict = verdict_of(used(quota("team", cpu=2), cpu=2), gang("j", 2, 3))
    assert verdict.cause is Cause.QUOTA
    assert verdict.message == (
        f"{SHORT}; resource quota team has no room for those that are missing "
        "(asked for: cpu 1 of the gang's cpu 3; used: cpu 2; hard: cpu 2)"
    )
    assert (verdict.need, verdict.have) == ({"cpu": 1000}, {"cpu": 0})
    assert verdict.changes == (LowerMinAvailable(2), RaiseQuota("team", {"cpu": 1000}))


def three(**minimum: Any) -> list[Any]:
    """Two pods of three, with minResources."""
    return [group("j", 3, resources=minimum), *(pod(f"j-{at}", "j", cpu=1, created=at) for at in range(2))]


REFUSING: dict[str, tuple[list[Any], dict[str, int]]] = {
    "pods": ([used(quota("team", pods=2), pods=2), gang("j", 2, 3)], {"pods": 1}),
    "count/pods": (
        [used(quota("team", **{"count/pods": 2}), **{"count/pods": 2}), gang("j", 2, 3)],
        {"count/pods": 1000},
    ),
    "nobody has counted": ([quota("team", **{"requests.cpu": 2}), gang("j", 2, 3)], {"requests.cpu": 1000}),
    "others hold it": (
        [used(quota("team", cpu=4), cpu=4), pod("x", node="a", cpu=2), gang("j", 2, 3)],
        {"cpu": 1000},
    ),
    "the missing pod is larger than the others": ([used(quota("team", cpu=5), cpu=2), three(cpu=6)], {"cpu": 1000}),
    "limits": (
        [used(quota("team", **{"limits.cpu": 5}), **{"limits.cpu": 4}), three(**{"limits.cpu": 6})],
        {"limits.cpu": 1000},
    ),
    "scope that counts them": (
        [scoped(used(quota("team", cpu=2), cpu=2), "NotBestEffort"), gang("j", 2, 3)],
        {"cpu": 1000},
    ),
}


@pytest.mark.parametrize("name", sorted(REFUSING))
def test_what_the_quota_lacks_is_what_it_is_raised_by(name: str) -> None:
    things, by = REFUSING[name]
    verdict = verdict_of(*things)
    assert verdict.cause is Cause.QUOTA
    assert RaiseQuota("team", by) in verdict.changes


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(used(quota("team", cpu=3), cpu=2), id="room"),
        pytest.param(used(quota("team", **{"nvidia.com/gpu": 0}), **{"nvidia.com/gpu": 0}), id="another resource"),
        pytest.param(used(quota("team", namespace="other", cpu=2), cpu=2), id="another namespace"),
        pytest.param(scoped(used(quota("team", cpu=2), cpu=2), "BestEffort"), id="scope that leaves them out"),
        pytest.param(used(quota("team", **{"limits.cpu": 2}), **{"limits.cpu": 2}), id="limits that nobody knows"),
    ],
)
def test_a_quota_with_room_is_not_blamed(limits: ResourceQuota) -> None:
    verdict = verdict_of(limits, gang("j", 2, 3))
    assert (verdict.cause, verdict.message) == (Cause.TOO_FEW_PODS, SHORT)
    assert CreatePods(1) in verdict.changes


def test_several_quotas_are_all_named() -> None:
    verdict = verdict_of(quota("apples", pods=2), quota("pears", cpu=2), gang("j", 2, 3))
    raised = Together((RaiseQuota("apples", {"pods": 1}), RaiseQuota("pears", {"cpu": 1000})))
    assert verdict.changes == (LowerMinAvailable(2), raised)
    assert verdict.suggestion == (
        "lower minAvailable to 2, or raise the resource quota apples: pods by 1 "
        "and raise the resource quota pears: cpu by 1"
    )
    assert "apples" in verdict.message
    assert "pears" in verdict.message


def test_a_quota_that_refuses_the_first_pod_is_no_passing_state() -> None:
    verdict = verdict_of(used(quota("team", pods=5), pods=5), group("j", 3))
    assert verdict.cause is Cause.QUOTA
    assert verdict.message.startswith("the PodGroup has no pods yet; 3 are needed; resource quota team has no room")
    assert verdict.suggestion == "raise the resource quota team: pods by 3 (not tried)"


def unreadable(name: str = "team", scopes: list[str] | None = None) -> ResourceQuota:
    odd = quota(name, cpu=9)
    odd.spec.hard = {"cpu": "many"}
    odd.spec.scopes = scopes
    return odd


def admitted(state: ClusterState, settings: SchedulerConfig) -> tuple[dict[str, str], dict[str, Verdict]]:
    decisions = schedule(state, settings)
    phases = {one.key: one.phase for one in decisions.pod_groups if one.phase == "Inqueue"}
    return phases, dict(decisions.verdicts)


WITH = config(("priority", "gang", "resourcequota"), ("predicates", "nodeorder"))
WITHOUT = config(("priority", "gang"), ("predicates", "nodeorder"))


def waiting() -> list[Any]:
    return [
        node("a"),
        gang("j", 1, phase="Pending", min_resources=True),
        gang("other", 1, namespace="else", phase="Pending", min_resources=True),
    ]


@pytest.mark.parametrize("how", ["amount", "decoding"])
def test_a_quota_that_cannot_be_read_admits_nothing_to_its_namespace_and_is_named(how: str) -> None:
    state = cluster(waiting())
    if how == "amount":
        state.apply("ADDED", kinds.RESOURCE_QUOTAS, unreadable())
    else:
        bare = ResourceQuota()
        bare.metadata.name, bare.metadata.namespace = "team", "ns"
        state.reject(kinds.RESOURCE_QUOTAS, bare, "cannot be decoded")
    assert "ResourceQuota ns/team" in state.rejected
    phases, verdicts = admitted(state, WITH)
    assert set(phases) == {"else/other"}
    assert verdicts["ns/j"].cause is Cause.QUOTA
    assert "resource quota team cannot be read" in verdicts["ns/j"].message
    assert set(admitted(state, WITHOUT)[0]) == {"ns/j", "else/other"}

    state.apply("MODIFIED", kinds.RESOURCE_QUOTAS, quota("team", cpu=9))
    assert set(admitted(state, WITH)[0]) == {"ns/j", "else/other"}
    state.apply("MODIFIED", kinds.RESOURCE_QUOTAS, unreadable())
    assert set(admitted(state, WITH)[0]) == {"else/other"}
    state.apply("DELETED", kinds.RESOURCE_QUOTAS, unreadable())
    assert set(admitted(state, WITH)[0]) == {"ns/j", "else/other"}


def test_scopes_of_a_quota_that_cannot_be_read_still_tell_whom_it_concerns() -> None:
    state = cluster(waiting())
    state.apply("ADDED", kinds.RESOURCE_QUOTAS, unreadable(scopes=["BestEffort"]))
    assert set(admitted(state, WITH)[0]) == {"ns/j", "else/other"}


@pytest.mark.parametrize(("first", "admitted"), [(0, False), (1, True)])
def test_pods_without_requests_admit_no_gang(first: int, admitted: bool) -> None:
    """They are placed without admission; a pod with requests shows that its gang was admitted before."""
    begun = [pod("j-0", "j", node="a", **({"cpu": first} if first else {})), pod("j-1", "j", cpu=1)]
    waiting = group("j", 2, phase="Pending", resources={"cpu": 4})
    state = cluster(node("a", cpu=8), used(quota("team", cpu=3), cpu=2), waiting, *begun)
    decided = schedule(state, config(("gang", "resourcequota"), ("predicates",)), now=1e9)
    assert placed(decided) == ({"j-1": "a"} if admitted else {})
