"""Specs of PostgreSQL's isolationtester as scenarios, and scenarios as specs.

`lexer` and `grammar` read the language of ``src/test/isolation``; `convert` makes a scenario of a spec, whose
problems point into the spec; `export` writes a spec and `layout` a scenario file. `transcript` derives from a
history the output that isolationtester would have printed, and `expected_output` compares it with the expected
output. Only `play` plays.
"""
