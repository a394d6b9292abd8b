"""The model: nodes, network, coordinators and agents in virtual time, under simpy.

It runs the machines of the protocol and the planners of the agents; only PostgreSQL's behaviour is implemented
here.
"""
