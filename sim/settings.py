"""Settings of command line and pytest plugin: an option, else the environment, else ``[tool.twopc]``, else a default.

Says what holds and where it was said. It must not know servers, scenarios or whoever asks: a flag is a
name and a value, and the environment and the folder to look in are given.
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
    """A setting has a value that it cannot have, or is none of ours; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What holds, wherever it was said."""

    pg: str = ""
    """``embedded``, a directory of PostgreSQL's programs, or the URL of a server; empty: whatever is there."""
    seed: int | None = None
    """Of all chance; None: the scenario's own, or 0."""
    jobs: int = 1
    """So many orders are played at once."""
    timeout_ms: int | None = None
    """Of a step; None: as the scenario says."""
    out: str = ".twopc/runs"
    """Where runs are written."""
    keep: str = "none"
    """Whose databases are left for a look: ``failed``, ``all`` or ``none``."""
    orders: str = ""
    """Of generated orders: ``all``, or ``sample:N``; empty: as the scenario says."""
    repeat: int = 1
    """So often everything is played."""
    report: str = ""
    """Where reports are written besides; empty: nowhere."""
    servers: str = "one"
    """One embedded server, or one for ``each`` node."""
    on: str = "postgres"
    """Where scenarios are played: real servers, ``model``, or ``both`` and compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingValue:
    """A setting's value as it was written, and where."""

    value: Any
    source: str
    """In words: ``--seed``, ``TWOPC_SEED``, ``[tool.twopc] seed in …/pyproject.toml``, ``default``."""


def duration_ms(text: str) -> int:
    """Milliseconds of ``500ms``, ``5s`` or ``2m``; ValueError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m)", text)
    if match is None:
        raise ValueError(f"a duration is written as 500ms, 5s or 2m, not '{text}'")
    return int(float(match[1]) * _UNITS_MS[match[2]])


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


#: How each setting is written outside of Python: its name, and what reads it.
_NAMES = {"timeout_ms": "timeout"}
_VARIABLES = {"pg": "TWOPC_PG_URL"}
_READERS: Mapping[str, Callable[[str], Any]] = {
    "pg": str,
    "seed": lambda text: _count(text, least=0),
    "jobs": lambda text: _count(text, least=1),
    "timeout_ms": duration_ms,
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
    """How the setting `name` is called in an option and in pyproject.toml."""
    return _NAMES.get(name, name)


def variable(name: str) -> str:
    """The environment variable of the setting `name`."""
    return _VARIABLES.get(name, f"TWOPC_{written(name).upper()}")


def load(flags: Mapping[str, Any], *, environment: Mapping[str, str], start: Path) -> RunSettings:
    """The settings that hold for somebody who works in the folder `start`.

    Args:
        flags: what was given on the command line, by the names of `RunSettings` or as they are written
            there; None: not given.

    Raises:
        SettingError: a value is none that its setting can have, or a key in the file is none of ours.
    """
    table, file = _table(start)
    _refuse_unknown(table, file)
    results = {}
    for name in _FIELDS:
        given = _given(name, flags, environment, table, file)
        if given is not None:
            results[name] = _read(name, given)
    return RunSettings(**results)


def source_of(
    name: str, flags: Mapping[str, Any], *, environment: Mapping[str, str], start: Path
) -> str:
    """Where the value of the setting `name` comes from, in words."""
    given = _given(name, flags, environment, *_table(start))
    return "default" if given is None else given.source


def _given(
    name: str,
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    table: Mapping[str, Any],
    file: Path | None,
) -> SettingValue | None:
    """The setting as the first of those who may say it has said it."""
    key = written(name)
    for each in (name, key):
        if flags.get(each) is not None:
            return SettingValue(value=flags[each], source=f"--{key}")
    if environment.get(variable(name)):  # an empty variable is how many shells unset one
        return SettingValue(value=environment[variable(name)], source=variable(name))
    if key in table:
        return SettingValue(value=table[key], source=f"{_TABLE} {key} in {file}")
    return None


def _read(name: str, given: SettingValue) -> Any:
    value = given.value
    if name == "timeout_ms" and isinstance(value, int) and given.source.startswith("--"):
        return value  # an option that was read already
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
    """The table of the nearest pyproject.toml that has one, in `start` or above it."""
    import tomllib  # paid for by whoever reads settings only

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
            import difflib  # for a mistake only

            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
            raise SettingError(f"{_TABLE} {key} in {file}: there is no such setting; {hint}")
