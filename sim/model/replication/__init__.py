"""Immediate updating in virtual time: what our triggers and procedures mean, written once over an open transaction.

Each module says which of the .sql files it is the meaning of. What PostgreSQL does beneath them is in
`twopc.sim.model.node`.
"""
