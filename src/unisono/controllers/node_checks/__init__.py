"""Checks that nodes pass between jobs: what is due (`decide`), and pods, marks and taints (`controller`)."""
