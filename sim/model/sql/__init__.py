"""The statement language of a model node: a subset of PostgreSQL's, compiled once for each text.

What is not known raises `UnsupportedError`; never a wrong answer instead. `plans` is what nodes use.
"""
