"""Merge replication on servers: installation in a database, and the engine of a session above its ports."""
