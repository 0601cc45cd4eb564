"""Requests of Knative's Services on one machine: held while no pod runs, counted, forwarded, and scaled by."""
