"""A Django application."""
