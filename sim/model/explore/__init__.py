"""Exploration of the model: every order of events, and a fault at every possible place."""
