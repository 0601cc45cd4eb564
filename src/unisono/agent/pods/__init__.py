"""One pod on this node, from its binding to its deletion."""
