"""The processing of each message of the log and of each command: one source, compiled if possible.

At installation `setup.py` compiles `MODULES` with mypyc if there is a C compiler. Otherwise they run as Python, with
the shortcut of `plain`. Both give the same results, byte for byte. A compiled module is named after its source, so that
it is never used for another one.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.resources import files
from types import ModuleType

from twopc.core.compilation import MODULES, PLAIN, compiled_name
from twopc.core.cut import cut_by_article
from twopc.core.plain import CommandScanner
from twopc.core.scan import RowPlan, int4_from, int4_of

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
    """Return the compiled modules, or the reason why they are not used."""
    if os.environ.get(PLAIN):
        return [], f"{PLAIN} is set"
    folder = files(__name__)  # also works in an archive
    names = [compiled_name(name, (folder / f"{name}.py").read_bytes()) for name in MODULES]
    try:
        return [import_module(f"{__name__}.{name}") for name in names], ""
    except ModuleNotFoundError:
        return [], "nothing was compiled of this source"
    except ImportError as error:
        return [], f"what was compiled cannot be loaded: {error}"


_modules, REASON = _compiled()
COMPILED = not REASON
"""False: the modules run as Python, for the `REASON`."""

for _module in _modules:
    globals().update({name: getattr(_module, name) for name in __all__ if hasattr(_module, name)})
