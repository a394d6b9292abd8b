"""Merge replication on servers: what is installed in a database, and the engine of a session above its ports."""
