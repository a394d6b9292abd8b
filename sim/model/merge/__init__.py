"""Nodes of merge replication without a server: what the SQL does, written down in values."""
