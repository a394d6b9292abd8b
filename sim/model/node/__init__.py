"""A server with one database: rows, locks, snapshots and WAL, with PostgreSQL's behaviour for concurrent
transactions.

This package knows neither replication nor other nodes.
"""
