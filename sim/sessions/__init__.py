"""Sessions of applications, and the waits between them: for scenarios, for tests in Python, and for faults."""
