"""HyperNodes: their status, and those that are made from labels of nodes."""
