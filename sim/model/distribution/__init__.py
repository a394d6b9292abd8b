"""Distribution in virtual time: log reader, distribution database, agents.

All decisions are made by the product's own planners. This package contains the processes around them, and the
effects of their statements on the model's nodes. Independent of scenarios.
"""
