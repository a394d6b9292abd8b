"""The crash matrix: what is broken on purpose, at which points, and what must hold afterwards.

Cells are derived from clean runs, so that a new point is struck without being listed anywhere.
"""
