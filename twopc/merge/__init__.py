"""Merge replication without I/O, clock or chance: versions, decisions, marks, and the plan of a session."""
