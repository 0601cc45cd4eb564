"""Arguments of the plug-ins of Volcano's Jobs: which are known, and what their author is told of others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from unisono.jobkinds.paths import walk

FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(flags.split())
    for name, flags in {
        "svc": "publish-not-ready-addresses disable-network-policy inject-hosts-env",
        "ssh": "ssh-key-file-path ssh-private-key ssh-public-key ssh-port no-root",
        "env": "",
        "tensorflow": "ps worker chief evaluator port",
        "pytorch": "master worker port wait-master-enabled wait-master-timeout wait-master-image",
        "mpi": "master worker port",
        "jax": "worker port",
        "ray": "head headContainer worker workerContainer port dashboardPort clientPort clientServerPort",
        "hcclrank": "master worker",
    }.items()
}
"""By plug-in."""


def unknown_flags(arguments: Sequence[str], known: Collection[str]) -> list[str]:
    """Unknown flags among the arguments, each once, as they are written; so are words that follow no flag."""
    unknown: list[str] = []
    after_flag = False
    for argument in arguments:
        name, separator, _ = argument.lstrip("-").partition("=")
        is_flag = argument.startswith("-") or bool(separator)
        if (is_flag and name not in known) or (not is_flag and not after_flag):
            unknown.append(argument.partition("=")[0])
        after_flag = is_flag and not separator
    return list(dict.fromkeys(unknown))


def left_out(plugin: str, unknown: Sequence[str]) -> str:
    """What is said of arguments that a plug-in does not know."""
    flags = ", ".join(f"--{name}" for name in FLAGS[plugin]) or "no arguments"
    return f"plug-in {plugin} leaves out {', '.join(unknown)}: it knows {flags}"


def unknown_arguments(obj: Any, templates: Sequence[str]) -> list[str]:
    """A sentence for each plug-in of a Job, or of what makes Jobs, with arguments that it does not know.

    Args:
        obj: a struct, or JSON values.
        templates: paths of its pod templates: its plug-ins stand beside the tasks.

    """
    above = dict.fromkeys(each.partition("tasks[*]")[0] for each in templates if "tasks[*]" in each)
    return [
        f"{at}[{name}]: {left_out(name, unknown)}"
        for each in above
        for at, plugins in walk(obj, f"{each}plugins")
        for name, arguments in plugins.items()
        if name in FLAGS and (unknown := unknown_flags(arguments or (), FLAGS[name]))
    ]
