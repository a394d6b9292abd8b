"""Check of this installation, apart from any server."""

from __future__ import annotations

from twopc import core
from twopc.doctor.finding import Finding


def core_finding() -> Finding:
    """Return whether `twopc.core` is compiled; if not, it works the same, more slowly."""
    if core.COMPILED:
        return Finding(level="ok", what="core", state="compiled")
    return Finding(
        level="warning",
        what="core",
        state=f"plain Python ({core.REASON}): log readers and agents take longer",
        remedy="where a C compiler and the headers of Python are installed, install twopc again",
    )
