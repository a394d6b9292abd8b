"""The model: nodes, network, coordinators and agents in virtual time, under simpy.

It runs the protocol's own machines and the agents' own planners; only what PostgreSQL does is written here.
"""
