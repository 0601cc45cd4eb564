"""Shapes of public manifests: each is accepted with the warnings that it must get, or refused with a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from support.backends import DRY, opened
from support.shapes import SHAPES
from unisono.api.kinds import find
from unisono.apiserver.operations.service import ObjectService
from unisono.errors import ApiError


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service() -> AsyncIterator[ObjectService]:
    async with opened() as backend:
        yield backend.service


def test_each_shape_is_there_once() -> None:
    assert not [of for of, number in Counter(shape["of"] for shape in SHAPES).items() if number > 1]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["of"])
async def test_nothing_is_without_effect_and_without_a_word(service: ObjectService, shape: dict[str, Any]) -> None:
    obj = shape["object"]
    kind = find(obj["apiVersion"], obj["kind"])
    if kind is None:  # which clients tell before anything is stored
        assert shape["refused"] == "not served"
        return
    kind = replace(kind, version=obj["apiVersion"].rpartition("/")[2])
    namespace = "default" if kind.namespaced else None
    if "refused" in shape:
        with pytest.raises(ApiError, match=shape["refused"]):
            await service.create(kind, namespace, obj, DRY)
        return
    told = (await service.create(kind, namespace, obj, DRY)).warnings
    assert len(told) == len(shape["warns"]), told
    for words in shape["warns"]:
        assert any(words in each for each in told), (words, told)
