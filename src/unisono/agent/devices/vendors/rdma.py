"""Network adapters with RDMA: InfiniBand, and Ethernet with RoCE."""

from __future__ import annotations

from pathlib import Path

from unisono.agent.devices.inventory import Accelerator, Inventory
from unisono.agent.devices.vendors.files import numa_node, pci_root, text
from unisono.api.keys import RDMA_AVAILABLE, RDMA_CAPABLE, RDMA_HCA


def find(sys: Path) -> Inventory:
    """Adapters by name; one without an active port is unhealthy."""
    devices, layers = [], set()
    for path in sorted((sys / "class" / "infiniband").glob("*"), key=lambda each: (len(each.name), each.name)):
        ports = sorted(path.glob("ports/*"))
        if not ports:
            continue
        # Such as "4: ACTIVE" and "InfiniBand".
        active = [port for port in ports if text(port / "state").startswith("4")]
        layers |= {text(port / "link_layer") for port in active}
        name = path.name
        devices.append(
            Accelerator(
                f"rdma-{name}", RDMA_HCA, name, bool(active), numa_node(path / "device"), pci_root(path / "device")
            )
        )
    if not devices:
        return Inventory()
    labels = {RDMA_CAPABLE: "true", RDMA_AVAILABLE: "true" if layers else "false"}
    # Which adapters NCCL uses; a job that asks for none keeps NCCL's own choice.
    return Inventory(tuple(devices), labels, {"NCCL_IB_HCA": None})
