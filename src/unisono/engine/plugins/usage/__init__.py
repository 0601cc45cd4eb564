"""usage: keeps pods off nodes with a high measured load."""
