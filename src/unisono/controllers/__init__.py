"""Reconcilers that turn desired objects into pods, groups and statuses through kube.Client alone."""
