"""Benchmarks; every figure is a ratio or a duration with a target."""
