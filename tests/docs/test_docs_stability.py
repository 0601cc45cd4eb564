"""What is promised about versions names everything that users can depend on."""

from __future__ import annotations

import re

from support.plane import REPOSITORY
from unisono.api import keys as names
from unisono.api.crds import crd_manifests

PAGE = (REPOSITORY / "docs" / "stability.md").read_text()
ROWS = dict(re.findall(r"^\| (.+?) \| (stable|beta|alpha) \|", PAGE, re.MULTILINE))


def test_every_group_of_our_kinds_has_a_class() -> None:
    named = {name for row in ROWS for name in re.findall(r"`([a-z0-9.-]+\.[a-z]+)`", row)}
    assert {each["spec"]["group"] for each in crd_manifests()} - named == set()


def test_every_prefix_of_our_keys_has_a_class() -> None:
    rows = "\n".join(ROWS)
    keys = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str) and "/" in value}
    own = {key.partition("/")[0] for key in keys if key.partition("/")[0].endswith(("volcano.sh", "unisono.io"))}
    assert {prefix for prefix in own if ".".join(prefix.split(".")[-2:]) not in rows} == set()


def test_every_class_that_is_used_says_what_it_promises() -> None:
    told = re.findall(r"^\| (\w+) \| (?:does|may)", PAGE, re.MULTILINE)
    assert set(ROWS.values()) == set(told) == {"stable", "beta", "alpha"}
