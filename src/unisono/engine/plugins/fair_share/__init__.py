"""fair-share: users or namespaces take turns within a queue by what they hold and have used, which decays."""
