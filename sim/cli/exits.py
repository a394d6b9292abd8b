"""Exit codes: the meaning of each, and the exceptions that lead to it."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Mapping

from twopc.errors import (
    ConfigurationError,
    DeliveryError,
    InDoubtError,
    MergeError,
    ScenarioError,
    TransactionError,
    TwopcError,
)
from twopc.sim.cli.connection_strings import without_passwords
from twopc.sim.settings import SettingError

PASS, SAFETY, USAGE, UNKNOWN, ENVIRONMENT, NOTHING, LIVENESS, THRESHOLD = range(8)
INTERNAL, INTERRUPTED = 70, 130
#: What a shell reports for a program that a closed pipe ended: 128 plus the number of SIGPIPE.
UNREAD = 141

EXIT_HELP = (
    "Exit codes: 0 passed; 1 an expectation or invariant failed; 2 wrong usage or scenario file; "
    "3 inconclusive: something is in doubt, or came out differently when repeated; 4 no usable server, or a full disk; "
    "5 nothing selected, or nothing played; 6 no end: a hang or deadlock, or an agent that has stopped; "
    "7 a threshold crossed; 70 internal error; 130 interrupted; 141 nobody reads what is printed."
)

#: Exit codes by the class of the error; a subclass is before its base class.
_CODES: Mapping[type[TwopcError], int] = {
    SettingError: USAGE,
    ConfigurationError: ENVIRONMENT,
    InDoubtError: UNKNOWN,
    TransactionError: SAFETY,
    DeliveryError: SAFETY,
    MergeError: SAFETY,
}
#: Classes of SQLSTATE: a lost or failed connection; a server that is shutting down.
_LOST = ("08", "57")

#: Exit codes in order of precedence: of several results the first one here is reported.
WORST_FIRST = (
    INTERRUPTED,
    INTERNAL,
    ENVIRONMENT,
    USAGE,
    SAFETY,
    LIVENESS,
    UNKNOWN,
    THRESHOLD,
    NOTHING,
    PASS,
)


def worst(codes: list[int]) -> int:
    """Return the exit code for several results."""
    return min(codes, key=WORST_FIRST.index, default=NOTHING)


def exit_code(error: Exception) -> int:
    """Print an error on standard error; return its exit code."""
    if isinstance(error, ScenarioError):
        _tell(str(error))
        return USAGE
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            _tell(f"error: {error}")
            is_lost = isinstance(error, MergeError) and error.sqlstate[:2] in _LOST
            return ENVIRONMENT if is_lost else code
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" {error.filename}" if error.filename is not None else ""
        _tell(f"error: cannot write{where}: {error.strerror}")
        return ENVIRONMENT
    if isinstance(error, FileNotFoundError) and not _has_working_directory():
        _tell("error: the working directory does not exist any more: change to another one")
        return ENVIRONMENT
    from twopc.sim.model.loop import HungError  # late, as it imports the simulation

    if isinstance(error, HungError):
        _tell(f"error: {error}")
        return LIVENESS
    _tell("".join(traceback.format_exception(error)).rstrip())
    _tell("internal error: this is a fault of twopc, not of your scenario")
    return INTERNAL


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _tell(text: str) -> None:
    print(without_passwords(text), file=sys.stderr)
