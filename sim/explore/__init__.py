"""Scenarios explored by hand in the browser, and the lessons that teach with them."""
