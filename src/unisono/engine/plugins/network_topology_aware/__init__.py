"""network-topology-aware: scores of HyperNodes, and of nodes by the HyperNodes above them."""
