"""What Helm makes of the chart."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest
import yaml

from support.plane import REPOSITORY
from unisono.install.rights import HUB_PLACES, NODE_LEASES
from unisono.install.workloads import NAMESPACE

CHART = REPOSITORY / "deploy" / "chart" / "unisono"
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def rendered(namespace: str = NAMESPACE, **values: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """What Helm makes of the chart in ``unisono-system``: its library where it is installed, else its command."""
    with suppress(ImportError):
        helm = import_module("helm_python")
        with helm.Chart.load(str(CHART)) as chart:
            texts = chart.render(values, name="unisono", namespace=namespace)
        text = "\n---\n".join(text for path, text in texts.items() if path.endswith(".yaml"))
        return {key(one): one for one in yaml.load_all(text, Loader=LOADER) if one}
    command = shutil.which("helm")
    if command is None:
        pytest.skip("there is neither helm nor the package helm-python-sdk here")
    arguments = [command, "template", "unisono", str(CHART), "-n", namespace, "-f", "-"]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True, input=json.dumps(values))
    return {key(one): one for one in yaml.load_all(done.stdout, Loader=LOADER) if one}


def key(manifest: dict[str, Any]) -> tuple[str, str]:
    meta = manifest["metadata"]
    place = meta.get("namespace")
    elsewhere = place in (NODE_LEASES, *HUB_PLACES)
    return manifest["kind"], f"{place}/{meta['name']}" if elsewhere else meta["name"]
