"""Which labels split the pods of a policy into sub-groups, in the words of newer and of earlier versions of Volcano."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from unisono.api.groups.scheduling import SubGroupPolicySpec
from unisono.cluster.groups import policies_of

LABELS = {"replica": "3", "role": "prefill"}


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ({"matchLabelKeys": ["replica"]}, ("3",)),
        ({"matchPolicy": [{"labelKey": "replica"}]}, ("3",)),
        ({"matchPolicy": [{"labelKey": "replica"}, {"labelKey": "role"}]}, ("3", "prefill")),
        # Who writes both means the newer one.
        ({"matchPolicy": [{"labelKey": "role"}], "matchLabelKeys": ["replica"]}, ("3",)),
        ({"matchPolicy": [{"labelKey": "role"}], "matchLabelKeys": []}, None),
        ({"matchPolicy": [{}]}, None),
        ({"matchPolicy": [{"labelKey": "gone"}]}, None),
        ({}, None),
    ],
)
def test_sub_groups_by_labels(fields: dict[str, Any], values: tuple[str, ...] | None) -> None:
    (policy,) = policies_of([msgspec.convert({"name": "p", **fields}, SubGroupPolicySpec)])
    assert policy.values(LABELS) == values


@pytest.mark.parametrize(("levels", "deep"), [(8, False), (9, True), (3000, True)])
def test_policies_are_nested_as_deep_as_cycles_may_go_and_no_deeper(levels: int, deep: bool) -> None:
    """Each cycle goes up from each policy: a chain of thousands would hold everybody up."""
    chain = [
        SubGroupPolicySpec(name="p0"),
        *(SubGroupPolicySpec(name=f"p{n}", parent=f"p{n - 1}") for n in range(1, levels)),
    ]
    circle = [SubGroupPolicySpec(name="x", parent="y"), SubGroupPolicySpec(name="y", parent="x")]
    assert len(policies_of(circle)) == 2  # which are found in another place
    if deep:
        with pytest.raises(ValueError, match="8 levels deep"):
            policies_of(chain)
    else:
        assert len(policies_of(chain)) == levels
