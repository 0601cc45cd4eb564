"""Readers of public traces, one module per form."""
