"""Resource maps in engine units, and what a pod needs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.core import Container, PodSpec, ResourceRequirements
from unisono.api.pod_states import qos_class
from unisono.api.resources import pod_limits, pod_requests, resource_list, to_wire

Map = dict[str, str | int | float]


def box(requests: Map | None = None, limits: Map | None = None, *, sidecar: bool = False) -> Container:
    return Container(
        name="c",
        resources=ResourceRequirements(requests=requests, limits=limits),
        restart_policy="Always" if sidecar else None,
    )


def test_units() -> None:
    assert resource_list(
        {
            "cpu": "1500m",
            "memory": "1Gi",
            "ephemeral-storage": "1k",
            "hugepages-2Mi": "4Mi",
            "pods": "110",
            "nvidia.com/gpu": 2,
            "requests.memory": "1Ki",
            "limits.cpu": 1,
        }
    ) == {
        "cpu": 1500,
        "memory": 1024**3,
        "ephemeral-storage": 1000,
        "hugepages-2Mi": 4 * 1024**2,
        "pods": 110,
        "nvidia.com/gpu": 2000,
        "requests.memory": 1024,
        "limits.cpu": 1000,
    }
    assert resource_list(None) == {}


@given(
    st.dictionaries(
        st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu", "hugepages-1Gi"]), st.integers(0, 2**53)
    )
)
def test_wire_round_trip(resources: dict[str, int]) -> None:
    assert resource_list(to_wire(resources)) == resources


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (PodSpec(), {}),
        (
            PodSpec(containers=[box({"cpu": "1"}), box({"cpu": "500m", "memory": "1Mi"})]),
            {"cpu": 1500, "memory": 1048576},
        ),
        # A limit without a request is its own request.
        (PodSpec(containers=[box({"cpu": 1}, {"cpu": 4, "nvidia.com/gpu": 1})]), {"cpu": 1000, "nvidia.com/gpu": 1000}),
        # The largest init container counts where it is larger than the sum of the containers.
        (
            PodSpec(
                init_containers=[box({"cpu": 3}), box({"memory": "1k"})], containers=[box({"cpu": 1}), box({"cpu": 1})]
            ),
            {"cpu": 3000, "memory": 1000},
        ),
        # A sidecar runs beside the containers, and beside the init containers after it.
        (
            PodSpec(
                init_containers=[box({"cpu": 4}), box({"cpu": 1}, sidecar=True), box({"cpu": 5})],
                containers=[box({"cpu": 2})],
            ),
            {"cpu": 6000},
        ),
        (PodSpec(init_containers=[box({"cpu": 1}, sidecar=True)], containers=[box({"cpu": 2})]), {"cpu": 3000}),
        (PodSpec(containers=[box({"cpu": 1})], overhead={"cpu": "250m", "memory": 5}), {"cpu": 1250, "memory": 5}),
        # Pod-level requests decide; pod-level limits only where nobody requests.
        (
            PodSpec(
                containers=[box({"cpu": 1, "memory": 10})],
                resources=ResourceRequirements(
                    requests={"cpu": 3}, limits={"cpu": 4, "memory": 20, "hugepages-2Mi": 2}
                ),
            ),
            {"cpu": 3000, "memory": 10, "hugepages-2Mi": 2},
        ),
    ],
)
def test_pod_requests(spec: PodSpec, expected: dict[str, int]) -> None:
    assert pod_requests(spec) == expected


def test_pod_limits() -> None:
    spec = PodSpec(
        init_containers=[box(limits={"cpu": 5}), box(limits={"cpu": 1}, sidecar=True)],
        containers=[box(limits={"cpu": 2}), box(limits={"memory": 10})],
        overhead={"memory": 1, "pods": 1},
    )
    assert pod_limits(spec) == {"cpu": 5000, "memory": 11}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([box()], "BestEffort"),
        ([box({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 1})], "BestEffort"),
        ([box({"cpu": 1})], "Burstable"),
        ([box({"cpu": 1}, {"cpu": 2, "memory": 1})], "Burstable"),
        ([box(None, {"cpu": 1, "memory": 1})], "Guaranteed"),
        ([box({"cpu": "1000m", "memory": 1}, {"cpu": 1, "memory": 1})], "Guaranteed"),
        ([box(None, {"cpu": 1, "memory": 1}), box()], "Burstable"),
        ([box({"cpu": "bad"})], "BestEffort"),
    ],
)
def test_quality_of_service(containers: list[Container], expected: str) -> None:
    assert qos_class(PodSpec(containers=containers)) == expected


def test_pod_level_resources_decide_the_quality_of_service() -> None:
    whole = ResourceRequirements(limits={"cpu": 1, "memory": 1})
    assert qos_class(PodSpec(containers=[box()], resources=whole)) == "Guaranteed"
