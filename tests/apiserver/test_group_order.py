"""Of kinds that share a name, which one clients take: the first group in discovery that has it."""

from __future__ import annotations

import pytest

from unisono.api.kinds import ALL_KINDS
from unisono.apiserver.catalog import Catalog


@pytest.mark.parametrize(
    ("plural", "group"), [("podgroups", "scheduling.volcano.sh"), ("jobs", "batch"), ("cronjobs", "batch")]
)
def test_the_first_group_with_the_name(plural: str, group: str) -> None:
    catalog = Catalog(ALL_KINDS)
    found = [
        name
        for name, versions in catalog.groups()
        for version in versions
        if any(served.kind.plural == plural for served in catalog.resources(name, version))
    ]
    assert found[0] == group
