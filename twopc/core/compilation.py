"""The modules that are compiled, and how the results are called. For `setup.py` too: nothing else is imported."""

from __future__ import annotations

import hashlib

#: Each is compiled by itself.
MODULES = ("cut", "scan")
#: Set to anything: what is compiled is not used.
PLAIN = "TWOPC_PLAIN"


def compiled_name(name: str, source: bytes) -> str:
    """What a module is compiled to: another module for every source of it."""
    return f"_{name}_{hashlib.sha256(source).hexdigest()[:12]}"
