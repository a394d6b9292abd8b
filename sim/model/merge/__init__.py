"""Nodes of merge replication without a server: the effects of the SQL code, implemented on values."""
