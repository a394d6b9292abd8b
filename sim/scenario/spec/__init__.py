"""Specs of PostgreSQL's isolationtester as scenarios, and scenarios as specs.

`lexer` and `grammar` read the language of ``src/test/isolation``; `convert` makes a scenario of what they
found, whose problems point into the spec; `export` writes a spec. `transcript` and `printed` make of a history what
isolationtester would have printed, and `expected` compares that with its expected output. `playing` alone plays.
"""
