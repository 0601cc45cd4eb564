"""Life of nodes on a control plane of one machine: heartbeats that stop, taints, and what happens to the pods."""
