"""What several plug-ins know: selectors, taints, affinity, spread, formulas of scores, measured load."""
