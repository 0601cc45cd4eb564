"""Write the generated files below ``deploy/``; with ``--check`` only say whether they are current."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from unisono import __version__
from unisono.api.crds import crd_manifests
from unisono.api.yaml import dump_all
from unisono.engine.config_file.reader import DEFAULT_TEXT
from unisono.install.admission import policies, webhooks
from unisono.install.monitoring import DASHBOARDS, alert_groups, dashboard, monitors
from unisono.install.numa_exporter import NUMA_EXPORTER
from unisono.install.rights import COMPONENTS, HUB, HUB_PLACES, NODE_LEASE_RIGHTS, own_rights, rules
from unisono.install.workloads import InstallOptions

DEPLOY = Path(__file__).resolve().parent.parent / "deploy"
CHART = DEPLOY / "chart" / "unisono"
NOTE = "# Written by scripts/deployment_files.py; do not edit.\n"


def _yaml(*documents: Any) -> str:
    return NOTE + ("---\n" if len(documents) > 1 else "") + dump_all(documents)


def files() -> dict[Path, str]:
    """Every generated file with its content."""
    made: dict[Path, str] = {}
    for manifest in crd_manifests():
        # Small rather than pretty: they are long, and not read here.
        made[CHART / "crds" / f"{manifest['metadata']['name']}.json"] = (
            json.dumps(manifest, separators=(",", ":")) + "\n"
        )
    for component, rights in COMPONENTS.items():
        made[CHART / "files" / f"{component}-cluster-rules.yaml"] = _yaml(rules(rights))
        made[CHART / "files" / f"{component}-own-rules.yaml"] = _yaml(rules(own_rights(component)))
    made[CHART / "files" / "hub-cluster-rules.yaml"] = _yaml(rules(HUB))
    for place, rights in HUB_PLACES.items():
        made[CHART / "files" / f"hub-{place}-rules.yaml"] = _yaml(rules(rights))
    made[CHART / "files" / "agent-node-leases-rules.yaml"] = _yaml(rules(NODE_LEASE_RIGHTS))
    made[CHART / "files" / "numa-exporter-cluster-rules.yaml"] = _yaml(rules(NUMA_EXPORTER))
    made[CHART / "files" / "policies.yaml"] = _yaml(*policies(webhook=True))
    made[CHART / "files" / "policies-without-webhook.yaml"] = _yaml(*policies())
    made[CHART / "files" / "policies-of-hubs.yaml"] = _yaml(*policies(hub=True)[len(policies()) :])
    hooks = {
        one["kind"].removesuffix("WebhookConfiguration").lower(): one["webhooks"] for one in webhooks(InstallOptions())
    }
    made[CHART / "files" / "webhooks.yaml"] = _yaml(hooks)
    made[CHART / "files" / "alerts.yaml"] = _yaml(alert_groups())
    made[CHART / "files" / "scheduler.conf"] = DEFAULT_TEXT
    made[CHART / "Chart.yaml"] = _yaml(
        {
            "apiVersion": "v2",
            "name": "unisono",
            "description": "Batch and AI scheduling: gangs, queues, fair sharing, topology, training jobs",
            "type": "application",
            "version": __version__,
            "appVersion": __version__,
            "kubeVersion": ">=1.30.0-0",
        }
    )
    made[DEPLOY / "monitoring" / "prometheus.yaml"] = _yaml(*monitors(InstallOptions()))
    # For a Prometheus without its operator.
    made[DEPLOY / "monitoring" / "rules.yaml"] = _yaml({"groups": alert_groups()})
    for name in DASHBOARDS:
        text = json.dumps(dashboard(name), indent=2) + "\n"
        made[DEPLOY / "monitoring" / "dashboards" / f"{name}.json"] = text
        made[CHART / "files" / "dashboards" / f"{name}.json"] = text
    return made


def main() -> int:
    """Write or check; 1 when something is not current."""
    made = files()
    inside = (path for path in CHART.glob("files/**/*") if path.is_file())
    generated = {*CHART.glob("crds/*"), *inside, *DEPLOY.glob("monitoring/**/*.json")}
    stale = [path for path, text in made.items() if not path.is_file() or path.read_text() != text]
    gone = sorted(generated - made.keys())
    if "--check" in sys.argv[1:]:
        for path in [*stale, *gone]:
            print(f"not current: {path.relative_to(DEPLOY.parent)}; run: python scripts/deployment_files.py")
        return 1 if stale or gone else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made[path])
    for path in gone:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
