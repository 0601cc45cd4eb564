"""What is kept of the pods on nodes is what a look at all of them would tell, whatever happened before."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.core import Pod
from unisono.dashboard.views.nodes import Holder, Usage, used_by_node

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["ADDED", "MODIFIED", "DELETED"]),
        st.integers(0, 4),
        st.sampled_from(["", "n1", "n2"]),
        st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
        st.integers(0, 3),
        st.sampled_from(["", "gang-a", "gang-b"]),
    ),
    max_size=30,
)
Event = tuple[str, int, str, str, int, str]


def pod(number: int, node: str, phase: str, cards: int, gang: str) -> Pod:
    asked = {"cpu": 1, **({"nvidia.com/gpu": cards} if cards else {})}
    value = {
        "metadata": {
            "name": f"p{number}",
            "namespace": "default",
            "uid": f"u{number}",
            "annotations": {"scheduling.k8s.io/group-name": gang} if gang else {},
        },
        "spec": {"nodeName": node or None, "containers": [{"name": "main", "resources": {"requests": asked}}]},
        "status": {"phase": phase},
    }
    return msgspec.convert(value, Pod)


@given(EVENTS)
def test_it_tells_what_all_pods_together_tell(events: Sequence[Event]) -> None:
    usage = Usage()
    there: dict[int, Event] = {}
    for each in events:
        event, number, *rest = each
        usage.note(event, pod(number, *rest))
        if event == "DELETED":
            there.pop(number, None)
        else:
            there[number] = each
    expected: dict[str, dict[str, tuple[int, int]]] = {}
    for _, number, node, phase, cards, gang in there.values():
        if node and phase in ("Pending", "Running"):
            job = f"default/{gang}" if gang else f"pod default/p{number}"
            pods, held = expected.setdefault(node, {}).get(job, (0, 0))
            expected[node][job] = (pods + 1, held + cards)
    found = {
        node: {job: (each.pods, each.amounts.get("nvidia.com/gpu", 0) // 1000) for job, each in jobs.items()}
        for node, jobs in usage.snapshot().items()
    }
    assert found == expected
    used = used_by_node(usage.snapshot())
    assert {node: each["pods"] for node, each in used.items()} == {
        node: sum(pods for pods, _ in jobs.values()) for node, jobs in expected.items()
    }


def test_a_snapshot_stays_as_it_was() -> None:
    usage = Usage()
    usage.note("ADDED", pod(1, "n1", "Running", 2, "gang-a"))
    before = usage.snapshot()
    usage.note("ADDED", pod(2, "n1", "Running", 3, "gang-a"))
    assert before["n1"]["default/gang-a"] == Holder(1, {"cpu": 1000, "nvidia.com/gpu": 2000})
    assert usage.snapshot()["n1"]["default/gang-a"] == Holder(2, {"cpu": 2000, "nvidia.com/gpu": 5000})
