"""resource-strategy-fit: packs or spreads pods by resource."""
