"""Immediate updating in virtual time: the effects of the product's triggers and procedures on an open transaction.

Each module names the .sql files whose effects it implements. PostgreSQL itself is modelled in
`twopc.sim.model.node`.
"""
