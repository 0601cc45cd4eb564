"""reservation: keeps nodes for a gang that waits, and lets others run there meanwhile."""
