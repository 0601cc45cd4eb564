"""Elastic jobs grow into idle capacity and make room for gangs that wait."""
