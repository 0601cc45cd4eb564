"""The API server tells of arguments that plug-ins do not know: it must know the same ones as the plug-ins."""

from __future__ import annotations

from unisono.controllers.job.plugins import ORDER
from unisono.jobkinds.idle_fields import FLAGS


def test_the_arguments_are_those_of_the_plugins() -> None:
    assert {plugin.name: tuple(plugin.flags) for plugin in ORDER} == FLAGS
