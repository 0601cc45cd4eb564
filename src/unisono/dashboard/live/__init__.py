"""What one viewer may see, kept current by informers with the viewer's own credentials."""
