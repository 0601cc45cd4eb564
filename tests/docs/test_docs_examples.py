"""The files of examples/: those that the documentation names exist, and a server takes each as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.plane import REPOSITORY
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.kinds import find
from unisono.api.validation import validate
from unisono.api.yaml import load_all

PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])
EXAMPLES = sorted(REPOSITORY.glob("examples/*.yaml"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_example_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"\bexamples/[\w./-]+\.(?:yaml|py)", page.read_text()))
    assert not {name for name in named if not (REPOSITORY / name).exists()}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_is_accepted(file: Path) -> None:
    for document in load_all(file.read_text(), file=file.name):
        kind = find(document.value["apiVersion"], document.value["kind"])
        assert kind is not None
        decoded = decode(kind, document.value)
        assert not decoded.unknown_fields
        assert not decoded.type_errors
        apply_defaults(kind, decoded.obj)
        assert not [error.message() for error in validate(kind, decoded.obj)]
