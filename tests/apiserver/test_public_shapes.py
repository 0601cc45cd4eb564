"""Shapes of public manifests: each is accepted with the warnings that it must get, or refused with a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.backends import OPTIONS, opened
from support.plane import REPOSITORY
from unisono.api.kinds import find
from unisono.api.yaml import load_all
from unisono.errors import ApiError

FILES = sorted((REPOSITORY / "tests" / "manifests" / "shapes").glob("*.yaml"))
SHAPES = [
    shape for file in FILES for document in load_all(file.read_text(), file=file.name) for shape in document.value
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["of"])
async def test_nothing_is_without_effect_and_without_a_word(shape: dict[str, Any]) -> None:
    obj = shape["object"]
    kind = find(obj["apiVersion"], obj["kind"])
    assert kind is not None
    kind = replace(kind, version=obj["apiVersion"].rpartition("/")[2])
    async with opened() as backend:
        namespace = "default" if kind.namespaced else None
        if "refused" in shape:
            with pytest.raises(ApiError, match=shape["refused"]):
                await backend.service.create(kind, namespace, obj, OPTIONS)
            return
        told = (await backend.service.create(kind, namespace, obj, OPTIONS)).warnings
    assert len(told) == len(shape["warns"]), told
    for words in shape["warns"]:
        assert any(words in each for each in told), (words, told)
