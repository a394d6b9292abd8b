"""What is done for each message of the log and for each command: one source, compiled where that is possible.

At installation `setup.py` has mypyc compile the modules here, if there is a C compiler. Where there is none they
run as they stand. Both come to the same, byte for byte. What is compiled is named after its source, so that it is
never taken for that of another source.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.resources import files
from types import ModuleType

from twopc.core.compilation import MODULES, PLAIN, compiled_name
from twopc.core.cut import cut_by_article
from twopc.core.scan import CommandScanner, RowPlan, int4_from, int4_of

__all__ = [
    "COMPILED",
    "REASON",
    "CommandScanner",
    "RowPlan",
    "cut_by_article",
    "int4_from",
    "int4_of",
]


def _compiled() -> tuple[list[ModuleType], str]:
    """The compiled modules; or why they are not used."""
    if os.environ.get(PLAIN):
        return [], f"{PLAIN} is set"
    folder = files(__name__)  # within an archive, too
    names = [compiled_name(name, (folder / f"{name}.py").read_bytes()) for name in MODULES]
    try:
        return [import_module(f"{__name__}.{name}") for name in names], ""
    except ModuleNotFoundError:
        return [], "nothing was compiled of this source"
    except ImportError as error:
        return [], f"what was compiled cannot be loaded: {error}"


_modules, REASON = _compiled()
COMPILED = not REASON
"""Else the modules run as they stand, for that `REASON`."""

for _module in _modules:
    globals().update({name: getattr(_module, name) for name in __all__ if hasattr(_module, name)})
