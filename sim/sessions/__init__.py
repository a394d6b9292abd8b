"""Sessions of applications, and who of them waits for whom: for scenarios, for tests in Python, and for faults."""
