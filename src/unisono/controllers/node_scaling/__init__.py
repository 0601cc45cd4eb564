"""Machines for gangs that wait: more replicas of Cluster API's MachineDeployments."""
