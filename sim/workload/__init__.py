"""Load: many clients on all nodes at once, what became of them, and whether that is within bounds.

Imported where a file has a workload, and nowhere else.
"""
