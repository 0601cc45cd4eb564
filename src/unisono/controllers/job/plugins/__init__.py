"""Job plug-ins, one per file. ``ORDER`` is the registry and the order in which they complete a pod."""

from __future__ import annotations

from unisono.controllers.job.plugins.arguments import PluginError
from unisono.controllers.job.plugins.base import JobPlugin
from unisono.controllers.job.plugins.env import EnvPlugin
from unisono.controllers.job.plugins.hcclrank import HcclrankPlugin
from unisono.controllers.job.plugins.jax import JaxPlugin
from unisono.controllers.job.plugins.mpi import MpiPlugin
from unisono.controllers.job.plugins.pytorch import PytorchPlugin
from unisono.controllers.job.plugins.ray import RayPlugin
from unisono.controllers.job.plugins.ssh import SshPlugin
from unisono.controllers.job.plugins.svc import SvcPlugin
from unisono.controllers.job.plugins.tensorflow import TensorflowPlugin
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
    known = {plugin.name: plugin for plugin in ORDER}
    wanted = {name: arguments or [] for name, arguments in (view.spec.plugins or {}).items()}
    unknown = sorted(wanted.keys() - known.keys())
    if unknown:
        raise PluginError(
            f"failed to get plugin {', '.join(unknown)}: this version has {', '.join(sorted(known))}; "
            "remove it from spec.plugins of a new job."
        )
    for name in list(wanted):
        for needed in known[name].needs:
            wanted.setdefault(needed, [])
    return [plugin(view, wanted[plugin.name]) for plugin in ORDER if plugin.name in wanted]
