"""Exploration: every order in which things may happen, every place where something may die."""
