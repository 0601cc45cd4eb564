"""Hyper jobs of ``training.volcano.sh``: several jobs that make up one training run, within one cluster."""
