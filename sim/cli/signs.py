"""Signs of the output for terminals whose encoding lacks them, such as that of ``LANG=C``."""

from __future__ import annotations

import codecs
from typing import TextIO

_ERRORS = "twopc.signs"
_SIGNS = dict(
    zip("✓✗⧗→►▶»←◄◀«↑▲↓…─╌–·●○│├└┤┼┘≠“”„‘’‚", "+x~>>>><<<<^^v.---**o|+++++#\"\"\"'''", strict=True)
)


def replace_missing(stream: TextIO) -> None:
    """Make a stream write similar ASCII characters, or a question mark, for those that its encoding lacks."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and codecs.lookup(stream.encoding or "utf-8").name != "utf-8":
        codecs.register_error(_ERRORS, _similar)
        reconfigure(errors=_ERRORS)


def _similar(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_SIGNS.get(sign, "?") for sign in missing), error.end
