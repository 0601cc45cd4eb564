"""nodegroup: which groups of nodes a queue may use."""
