"""Clients of a control plane, blocking and with asyncio, and the private one that they may start."""
