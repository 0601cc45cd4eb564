"""Volumes of pods as folders of this machine."""
