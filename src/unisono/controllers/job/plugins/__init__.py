"""Job plug-ins. ``ORDER`` is the registry and the order in which they complete a pod."""

from __future__ import annotations

from unisono.controllers.job.plugins.base import JobPlugin, PluginError
from unisono.controllers.job.plugins.frameworks import (
    HcclrankPlugin,
    JaxPlugin,
    MpiPlugin,
    PytorchPlugin,
    RayPlugin,
    TensorflowPlugin,
)
from unisono.controllers.job.plugins.network import EnvPlugin, SshPlugin, SvcPlugin
from unisono.controllers.job.view import JobView

# The last one reads what the others set.
ORDER: tuple[type[JobPlugin], ...] = (
    SvcPlugin,
    SshPlugin,
    EnvPlugin,
    TensorflowPlugin,
    PytorchPlugin,
    MpiPlugin,
    JaxPlugin,
    RayPlugin,
    HcclrankPlugin,
)

__all__ = ["ORDER", "JobPlugin", "PluginError", "load"]


def load(view: JobView) -> list[JobPlugin]:
    """The plug-ins of a job with those that they need, ready to use.

    Raises:
        PluginError: a plug-in is unknown, or an argument makes no sense.
    """
    by_name = {plugin.name: plugin for plugin in ORDER}
    arguments_of = {name: arguments or [] for name, arguments in (view.spec.plugins or {}).items()}
    unknown = sorted(arguments_of.keys() - by_name.keys())
    if unknown:
        raise PluginError(
            f"failed to get plugin {', '.join(unknown)}: this version has {', '.join(sorted(by_name))}; "
            "remove it from spec.plugins of a new job."
        )
    for name in list(arguments_of):
        for needed in by_name[name].needs:
            arguments_of.setdefault(needed, [])
    return [plugin(view, arguments_of[plugin.name]) for plugin in ORDER if plugin.name in arguments_of]
