"""Settings of command line and pytest plugin: an option, else the environment, else ``[tool.twopc]``, else a
default.

For each setting, the module returns the value and its source. Independent of servers, scenarios and callers:
options are given as names and values, and the environment and the starting folder as arguments.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twopc.errors import ConfigurationError

_TABLE = "[tool.twopc]"
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000}


class SettingError(ConfigurationError):
    """A setting has an invalid value, or does not exist; the message names the place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The effective settings, independent of their source."""

    pg: str = ""
    """``embedded``, a directory of PostgreSQL's programs, or the URL of a server; empty: the first that is
    available.
    """
    seed: int | None = None
    """Seed of all random choices; None: the scenario's own, or 0."""
    jobs: int = 1
    """Number of orders played in parallel."""
    timeout_ms: int | None = None
    """Timeout of a step; None: the scenario's."""
    out: str = ".twopc/runs"
    """Folder into which runs are written."""
    keep: str = "none"
    """Orders whose databases are kept for inspection: ``failed``, ``all`` or ``none``."""
    orders: str = ""
    """Which of the generated orders are played: ``all``, or ``sample:N``; empty: as the scenario specifies."""
    repeat: int = 1
    """Number of times that everything is played."""
    report: str = ""
    """Additional folder for reports; empty: none."""
    servers: str = "one"
    """One embedded server, or one for ``each`` node."""
    on: str = "postgres"
    """Theatre of the scenarios: ``postgres`` (real servers), ``model``, or ``both``, with a comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingValue:
    """A setting's value as written, with its source."""

    value: Any
    source: str
    """Source as text: ``--seed``, ``TWOPC_SEED``, ``[tool.twopc] seed in …/pyproject.toml``, ``default``."""


def duration_ms(text: str) -> int:
    """Return the milliseconds of ``500ms``, ``5s`` or ``2m``; raise ValueError for any other text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m)", text)
    if match is None:
        raise ValueError(f"a duration is written as 500ms, 5s or 2m, not '{text}'")
    return int(float(match[1]) * _UNITS_MS[match[2]])


def _limit_ms(text: str) -> int:
    """Return the milliseconds of a time limit; raise ValueError for none at all."""
    result = duration_ms(text)
    if not result:
        raise ValueError(f"a time limit over 0, not '{text}'")
    return result


def _count(text: str, *, least: int) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) < least:
        raise ValueError(f"a number from {least}, not '{text}'")
    return int(text)


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{', '.join(words[:-1])} or {words[-1]}, not '{text}'")
        return text

    return read


def _orders(text: str) -> str:
    if text and text != "all" and not re.fullmatch(r"sample:[1-9]\d*", text):
        raise ValueError(f"all or sample:N, not '{text}'")
    return text


#: Names of settings outside Python where they differ, and the functions that parse values.
_NAMES = {"timeout_ms": "timeout"}
_VARIABLES = {"pg": "TWOPC_PG_URL"}
_READERS: Mapping[str, Callable[[str], Any]] = {
    "pg": str,
    "seed": lambda text: _count(text, least=0),
    "jobs": lambda text: _count(text, least=1),
    "timeout_ms": _limit_ms,
    "out": str,
    "keep": _one_of("failed", "all", "none"),
    "orders": _orders,
    "repeat": lambda text: _count(text, least=1),
    "report": str,
    "servers": _one_of("one", "each"),
    "on": _one_of("postgres", "model", "both"),
}
_FIELDS = tuple(field.name for field in dataclasses.fields(RunSettings))


def written(name: str) -> str:
    """Return the name of the setting `name` in options and in pyproject.toml."""
    return _NAMES.get(name, name)


def variable(name: str) -> str:
    """Return the environment variable of the setting `name`."""
    return _VARIABLES.get(name, f"TWOPC_{written(name).upper()}")


def load(flags: Mapping[str, Any], *, environment: Mapping[str, str], start: Path) -> RunSettings:
    """Return the effective settings for the working folder `start`.

    Args:
        flags: options of the command line, by the names of `RunSettings` or by option name; None: not given.

    Raises:
        SettingError: a value is invalid for its setting, or a key in the file is unknown.
    """
    table, file = _table(start)
    _refuse_unknown(table, file)
    results = {}
    for name in _FIELDS:
        given = _given(name, flags, environment, table, file)
        if given is not None:
            results[name] = _read(name, given)
    return RunSettings(**results)


def _given(
    name: str,
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    table: Mapping[str, Any],
    file: Path | None,
) -> SettingValue | None:
    """Return the setting from the source with the highest precedence; None: no source has it."""
    key = written(name)
    for each in (name, key):
        if flags.get(each) is not None:
            return SettingValue(value=flags[each], source=f"--{key}")
    if environment.get(variable(name)):  # an empty variable counts as unset
        return SettingValue(value=environment[variable(name)], source=variable(name))
    if key in table:
        return SettingValue(value=table[key], source=f"{_TABLE} {key} in {file}")
    return None


def _read(name: str, given: SettingValue) -> Any:
    value = given.value
    if name == "timeout_ms" and isinstance(value, int) and given.source.startswith("--"):
        return value  # an option that was parsed already
    if isinstance(value, bool) or not isinstance(value, (str, int, Path)):
        raise SettingError(f"{given.source}: it is text or a number, not {value!r}")
    try:
        return _READERS[name](str(value))
    except ValueError as error:
        message = str(error)
        raise SettingError(
            f"{given.source}: {message if message.startswith('a duration') else f'it is {message}'}"
        ) from None


def _table(start: Path) -> tuple[Mapping[str, Any], Path | None]:
    """Return the table of the nearest pyproject.toml that has one, in `start` or above it, with the file's path."""
    import tomllib  # imported only when settings are read

    for folder in (start.absolute(), *start.absolute().parents):
        file = folder / "pyproject.toml"
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingError(f"{file}: not TOML: {error}") from None
        tool = content.get("tool")
        table = tool.get("twopc") if isinstance(tool, dict) else None
        if isinstance(table, dict):
            return table, file
        if table is not None:
            raise SettingError(f"{_TABLE} in {file}: it is a table, not {table!r}")
    return {}, None


def _refuse_unknown(table: Mapping[str, Any], file: Path | None) -> None:
    known = [written(name) for name in _FIELDS]
    for key in table:
        if key not in known:
            import difflib  # needed only for the message

            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
            raise SettingError(f"{_TABLE} {key} in {file}: there is no such setting; {hint}")
