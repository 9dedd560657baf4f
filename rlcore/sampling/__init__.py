"""The inner loops: how policies and environments are driven to collect experience."""
