"""Distribution in virtual time: log reader, distribution database, agents.

What is decided is decided by the product's own planners; here are the processes around them, and what their
statements mean to the model's nodes. Nothing here knows scenarios.
"""
