"""The plugin's settings: mark, option, environment, ini file, ``[tool.twopc]``, default, in this order.

Options and ini values are named ``--twopc-seed`` and ``twopc_seed``.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from twopc.sim.settings import RunSettings

#: Help texts of the settings.
OPTIONS = {
    "pg": "the server: embedded, a directory of PostgreSQL's programs, or a URL",
    "seed": "of all chance: samples of orders, Hypothesis' schedules",
    "repeat": "run every test that uses twopc so often",
    "orders": "of generated orders: all, sample:N, or one order ('a0 b0 a1') for run_orders",
    "keep": "leave databases for a look, on a server that stays: of failed tests, of all, or of none (the default)",
    "report": "a directory for each failed test's history and page",
    "on": "where scenario files are played: postgres (the default), or model: in virtual time, without a server",
    "timeout": "how long a statement may take, as 500ms or 30s (30s)",
}
_SETTINGS = pytest.StashKey["RunSettings"]()
_TIMEOUT_S = 30.0


def add_options(parser: pytest.Parser) -> None:
    """Add the options and ini values."""
    group = parser.getgroup("twopc", "two-phase commit on real PostgreSQL")
    for name, text in OPTIONS.items():
        metavar = name.upper()
        group.addoption(f"--twopc-{name}", dest=f"twopc_{name}", metavar=metavar, help=text)
        parser.addini(f"twopc_{name}", help=text, default=None)
    group.addoption(
        "--twopc-accept",
        action="store_true",
        dest="twopc_accept",
        help="write what has happened into the expectations of scenario files that failed",
    )
    group.addoption(
        "--twopc-any-client",
        action="store_true",
        dest="twopc_any_client",
        help="clients without a coordinator may write at every Subscriber, unless a mark says otherwise",
    )
    parser.addini(
        "twopc_any_client",
        help="clients without a coordinator may write at every Subscriber",
        type="bool",
        default=False,
    )
    parser.addini(
        "twopc_collect", help="collect *.twopc.yaml files as tests", type="bool", default=True
    )


def option(config: pytest.Config, name: str) -> str | None:
    """Return a setting's option, or its ini value if the environment does not set it."""
    from twopc.sim.settings import variable

    given = config.getoption(f"twopc_{name}")
    if given is None and not os.environ.get(variable("timeout_ms" if name == "timeout" else name)):
        given = config.getini(f"twopc_{name}") or None
    return None if given is None else str(given)


def settings_of(config: pytest.Config) -> RunSettings:
    """Return the settings of the whole run.

    Raises:
        pytest.UsageError: a value is invalid for its setting; names the source.
    """
    if _SETTINGS not in config.stash:
        from twopc.errors import ConfigurationError
        from twopc.sim.settings import load

        flags: dict[str, Any] = {name: option(config, name) for name in OPTIONS}
        if one_order(config):
            flags["orders"] = None  # an order of run_orders, whose steps are not known here
        try:
            config.stash[_SETTINGS] = load(flags, environment=os.environ, start=config.rootpath)
        except ConfigurationError as error:
            # a message names an option as the command line does: --seed
            named = re.sub("^--", "--twopc-", str(error))
            raise pytest.UsageError(named) from None
    return config.stash[_SETTINGS]


def one_order(config: pytest.Config) -> str:
    """Return the order requested of `run_orders`; empty if none was."""
    given = option(config, "orders") or ""
    return given if " " in given.strip() else ""


def stage(config: pytest.Config) -> str:
    """Return the theatre of scenario files.

    Raises:
        pytest.UsageError: both theatres are requested, which only the command line compares.
    """
    on = settings_of(config).on
    if on == "both":
        raise pytest.UsageError(
            "--twopc-on: it is postgres or model; 'twopc run --on both' compares them"
        )
    return on


def any_client(config: pytest.Config) -> bool:
    """Whether any client may write if neither mark nor fixture specifies it."""
    return bool(config.getoption("twopc_any_client") or config.getini("twopc_any_client"))


def keeps(config: pytest.Config, *, failed: bool) -> bool:
    """Whether the databases of a test are kept for inspection."""
    keep = settings_of(config).keep
    return keep == "all" or (keep == "failed" and failed)


def timeout_s(config: pytest.Config) -> float:
    """Return the timeout of a statement in seconds."""
    milliseconds = settings_of(config).timeout_ms
    return _TIMEOUT_S if milliseconds is None else milliseconds / 1000
