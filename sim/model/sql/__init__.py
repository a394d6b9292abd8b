"""The SQL of a model node: a subset of PostgreSQL's, each statement compiled once. Nodes use `plans`.

A statement outside of the subset raises `UnsupportedError`; it never gets a wrong result.
"""
