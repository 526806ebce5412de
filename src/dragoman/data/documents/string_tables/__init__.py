"""Texts of user interfaces by their names: string resources, properties, JSON, YAML and columns."""
