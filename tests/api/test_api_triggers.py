"""What triggers of ScaledObjects must say: Redis."""

from __future__ import annotations

import pytest

from unisono.api.keda import ScaleTrigger, mistakes, of_metric, redis_address

GOOD = {"address": "redis:6379", "listName": "work"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({}, ""),
        ({"address": "", "host": "redis"}, ""),
        ({"address": "[::1]:6379", "databaseIndex": "3", "listLength": "2.5"}, ""),
        ({"listName": ""}, "metadata.listName"),
        ({"listName": "work\r\nFLUSHALL"}, "metadata.listName"),
        ({"address": "redis"}, "metadata.address"),
        ({"address": "redis:0"}, "metadata.address"),
        ({"address": "redis:http"}, "metadata.address"),
        ({"address": ""}, "metadata.address"),
        ({"listLength": "0"}, "metadata.listLength"),
        ({"listLength": "many"}, "metadata.listLength"),
        ({"passwordFromEnv": "PASSWORD"}, "metadata.passwordFromEnv"),
        ({"enableTLS": "true"}, "metadata.enableTLS"),
        ({"enableTLS": "false"}, ""),
    ],
)
def test_redis(changes: dict[str, str], field: str) -> None:
    trigger = ScaleTrigger(type="redis", metadata={**GOOD, **changes})
    assert [error.path for error in mistakes(trigger, "t")] == ([f"t.{field}"] if field else [])


def test_where_a_server_of_redis_is() -> None:
    assert redis_address({"host": "redis"}) == ("redis", 6379)
    assert redis_address({"address": "[::1]:7000"}) == ("::1", 7000)


@pytest.mark.parametrize(
    ("metadata", "value", "target", "active"),
    [({}, 1.0, 5.0, True), ({}, 0.0, 5.0, False), ({"listLength": "2", "activationListLength": "1"}, 1.0, 2.0, False)],
)
def test_what_a_list_says(metadata: dict[str, str], value: float, target: float, active: bool) -> None:
    reading = of_metric(ScaleTrigger(type="redis", metadata={**GOOD, **metadata}), value)
    assert (reading.value, reading.target, reading.active) == (value, target, active)
