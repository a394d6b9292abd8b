"""The modules that are compiled, and how the results are called. For `setup.py` too: nothing else is imported."""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).parent
#: Those that are compiled, each by itself.
SOURCES = tuple(FOLDER / f"{name}.py" for name in ("cut", "scan"))
#: Set to anything: what is compiled is not used.
PLAIN = "TWOPC_PLAIN"


def compiled_name(source: Path) -> str:
    """The module that a source is compiled to: another one for every text of it."""
    return f"_{source.stem}_{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
