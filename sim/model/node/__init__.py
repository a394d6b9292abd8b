"""A server with one database, as PostgreSQL behaves where transactions meet: rows, locks, snapshots, its log.

It must not know replication, nor who else is on the network; those use `twopc.sim.model.ports`.
"""
