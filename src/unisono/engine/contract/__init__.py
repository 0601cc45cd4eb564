"""The hooks of plug-ins by what they are asked about; `unisono.engine.plugin.Plugin` has them all."""
