"""Fixes that an explanation offers: what each changes through the API, as patches, and how it is carried out."""
