"""Puts this folder on the import path: tests say ``from support.memory import MemoryClient``."""
