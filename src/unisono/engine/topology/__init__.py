"""Placing jobs in domains of the network: sub-groups, gradients of HyperNodes, and what keeps a job out of them."""
