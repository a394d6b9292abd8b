"""Load: many concurrent clients at all nodes, the figures of their transactions, and thresholds.

The package is imported only for scenario files that have a workload.
"""
