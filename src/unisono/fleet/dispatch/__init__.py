"""Carries out where jobs go: placements, copies in members, their status back, and orders to them."""
