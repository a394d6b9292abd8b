"""Tests of connection strings: no command that takes one prints a password, whatever is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from tests.cli.files import ACCOUNT
from twopc.sim.cli import app, exits

_PASSWORD = "sesame"
_NOWHERE = f"postgres:{_PASSWORD}@127.0.0.1:1/db"
#: A URL as SQLAlchemy has it, of a server that refuses connections at once.
_DRIVERS = f"postgresql+psycopg://{_NOWHERE}"

#: Values of other required arguments, if they cannot be arbitrary.
_WORDS = {
    "days": "14",
    "file": "account.twopc.yaml",
    "paths": "account.twopc.yaml",
    "procedure": "sp_scriptinsproc",
    "key": "id=1",
    "conflict": "12345678",
    "--keep": "winner",
    "--replicate-ddl": "",
}
#: Options without which nothing is done, or no server is used.
_FLAGS = {
    ("article", "change"): ["--ins", "NONE"],
    ("check",): ["--connect"],
}


def _commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, each in getattr(command, "commands", {}).items():
        yield from _commands(each, (*words, name))
    if not hasattr(command, "commands"):
        yield words, command


def _takes_dsn(option: Any) -> bool:
    return "--pg" in option.opts or "DSN" in (option.metavar or "")


_TAKERS = [
    pytest.param(words, command, option, id=" ".join((*words, option.opts[0])))
    for words, command in _commands(typer.main.get_command(app))
    for option in command.params
    if _takes_dsn(option)
]


def _others(command: Any, option: Any) -> list[str]:
    """Return arguments for everything else that a command requires."""
    results: list[str] = []
    for each in command.params:
        if each.required and each is not option:
            name = each.opts[0]
            value = _DRIVERS if _takes_dsn(each) else "x"
            value = f"pub={value}" if "=DSN" in (each.metavar or "") else _WORDS.get(name, value)
            results += [word for word in (name if name.startswith("-") else "", value) if word]
    return results


@pytest.fixture(autouse=True)
def file(tmp_path):
    """Write a scenario file into the folder in which commands run."""
    (tmp_path / "account.twopc.yaml").write_text(ACCOUNT, encoding="utf-8")


@pytest.mark.parametrize(("words", "command", "option"), _TAKERS)
def test_no_password_is_printed(twopc, words, command, option):
    """Drivers' URLs are accepted; mistakes and unreachable servers are reported as such."""
    has_name = "=DSN" in (option.metavar or "")
    said = [*words, *_others(command, option), *_FLAGS.get(words, ()), option.opts[0]]

    def refusal(dsn: str) -> str:
        return _refusal(twopc(*said, f"pub={dsn}" if has_name else dsn))

    assert "not a connection string" not in refusal(_DRIVERS)
    assert "not a connection string" in refusal(f"mysql://{_NOWHERE}")
    assert "not ssl" in refusal(f"postgresql+asyncpg://{_NOWHERE}?ssl=require")
    if has_name:
        assert "the name of a node is missing" in _refusal(
            twopc(*said, f"{_DRIVERS}?sslmode=disable")
        )


def test_names_of_nodes(twopc):
    """An invalid name of a node is quoted in the error, but not what may be a connection string."""
    for name in ("büro", "a&b", "x" * 64):
        said = _refusal(twopc("merge", "status", "--node", f"{name}=postgresql://{_NOWHERE}"))
        assert f"{name!r} cannot be the name of a node" in " ".join(said.split())
    for text in (f"postgresql://u:{_PASSWORD}@h/db?a=b", f"p {_PASSWORD}=x", "=postgresql://h/db"):
        assert "the name of a node is missing" in _refusal(twopc("merge", "status", "--node", text))


def test_of_an_option_that_is_none(twopc):
    """A connection string in a wrong place is quoted without its password."""
    for words in (
        ["status", f"pub={_DRIVERS}"],
        ["activate", "store", f"host=127.0.0.1 port=1 password={_PASSWORD}"],
        ["tracer", "history", _DRIVERS],
        [_DRIVERS],
        ["activate", f"postgresql://postgres:open@{_PASSWORD}@h/db", "--node", f"pub={_DRIVERS}"],
        ["run", "account.twopc.yaml", "--pg", f"postgres:{_PASSWORD}@h/db"],
    ):
        _refusal(twopc(*words))


@pytest.mark.parametrize(
    "dsn",
    [
        f"jdbc:postgresql://127.0.0.1:1/db?user=postgres&password={_PASSWORD}",
        f'"postgresql://{_NOWHERE}"',
        f"'host=127.0.0.1 port=1 password={_PASSWORD}'",
        f"postgres:{_PASSWORD}@[::1:1/db",
        f"postgresql://postgres:{_PASSWORD}@[::1:1/db",
        f"postgresql://postgres:{_PASSWORD}",
        f"postgresql://postgres:open/{_NOWHERE}",
        f"postgresql://postgres:open@{_PASSWORD}@127.0.0.1:1/db",
        f"postgresql://postgres:{_PASSWORD}%@127.0.0.1:1/db",
        f"host=127.0.0.1 port=1 password=open {_PASSWORD}",
        f"host=127.0.0.1 port=1 password='{_PASSWORD}",
        f"host=127.0.0.1 port=1 pasword={_PASSWORD}",
        f"host=127.0.0.1 port=1 connect_timeout=soon password={_PASSWORD}",
    ],
)
def test_of_a_mistake(twopc, dsn):
    """A malformed or ambiguous connection string is refused without its password."""
    for words in (["status"], ["merge", "status"], ["doctor"]):
        assert "node 'pub': " in _refusal(twopc(*words, "--node", f"pub={dsn}"))


def _refusal(done: Any) -> str:
    assert _PASSWORD not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (exits.USAGE, exits.ENVIRONMENT), done
    return str(done.stderr)
