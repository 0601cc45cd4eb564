"""Causes why a job waits, one module each; `unisono.engine.verdicts.order` has their order."""
