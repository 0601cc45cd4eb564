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
