"""YAML that is written reads back as what was written, by our reader and by PyYAML's."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.yaml import dump, dump_all, load_all

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
LOOKALIKES = (
    "y", "N", "on", "1e3", "0o14", "014", ".5", "1_000", "12:30:45", "2026-11-20", "~", "null", ".inf", "", "-", "0x1F",
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS | st.sampled_from(LOOKALIKES)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS | st.sampled_from(LOOKALIKES), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_a_document_reads_back(value: Any) -> None:
    (found,) = load_all(dump({"value": value}))
    assert found.value == {"value": value}


@pytest.mark.parametrize("text", LOOKALIKES)
def test_a_text_stays_a_text(text: str) -> None:
    written = dump({"value": text, text: 1})
    assert yaml.safe_load(written) == {"value": text, text: 1}
    assert [document.value for document in load_all(written)] == [{"value": text, text: 1}]


def test_several_documents_without_anchors() -> None:
    shared = {"cpu": "1"}
    written = dump_all([{"a": shared, "b": shared}, {"c": "é"}])
    assert written == 'a:\n  cpu: "1"\nb:\n  cpu: "1"\n---\nc: é\n'
