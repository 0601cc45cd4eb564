"""Values that containers get from pods, ConfigMaps and Secrets."""
