"""The modules to compile, and the names of the results. It imports nothing of ours, since `setup.py` uses it too."""

from __future__ import annotations

import hashlib

#: Each is compiled separately.
MODULES = ("cut", "scan")
#: An environment variable: if it is set, compiled modules are not used.
PLAIN = "TWOPC_PLAIN"


def compiled_name(name: str, source: bytes) -> str:
    """Return the name of the compiled module, which is different for every source."""
    return f"_{name}_{hashlib.sha256(source).hexdigest()[:12]}"
