"""Random clusters that live for a few cycles, and rules that every decision about them must keep."""
