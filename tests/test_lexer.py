"""Tests of tokens and statements of SQL, compared with the server's."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twopc.lexer import code, ends_transaction, statements, tokens, transaction_control
from twopc.server import EmbeddedServer


@pytest.fixture(scope="module")
def session(server: EmbeddedServer) -> Iterator[psycopg.Connection]:
    """Open an administrator's session."""
    with psycopg.connect(server.superuser_dsn("postgres"), autocommit=True) as connection:
        yield connection


_SIGNS = "ab:'\"$[]()/*-;%\\\n\réÉ1."


@given(st.text(alphabet=_SIGNS + "E"))
def test_tokens_joined_are_the_text(text: str) -> None:
    found = list(tokens(text))
    assert "".join(token.text for token in found) == text
    assert all(text.startswith(token.text, token.start) for token in found)
    list(code(text))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("; -- nothing\n;", 0),
        ("select 1;", 1),
        ("select ';'; select $$;$$", 2),
        (
            "create function f() returns int language sql begin atomic select 1; select 2; end; select 1",
            2,
        ),
        ("create function f() returns int begin atomic select case when true then 1 end; end", 1),
    ],
)
def test_statements(text: str, count: int) -> None:
    assert len(statements(text)) == count


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("begin", "BEGIN"),
        ("START TRANSACTION", "START TRANSACTION"),
        ("select 1; Commit", "COMMIT"),
        ("prepare transaction 'x'", "PREPARE TRANSACTION"),
        ("rollback prepared 'x'", "ROLLBACK PREPARED"),
        ("savepoint a", ""),
        ("rollback to a", ""),
        ("rollback work to savepoint a", ""),
        ("release a", ""),
        ("prepare p as select 1", ""),
        ("select 'commit'", ""),
        ("update t set commit = 1", ""),
    ],
)
def test_transaction_control(text: str, found: str) -> None:
    assert next(filter(None, map(transaction_control, statements(text))), "") == found


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ("begin update t set i = 1; commit; end", "COMMIT"),
        ("begin <<a>> rollback; end", "ROLLBACK"),
        ("begin if true then commit and chain; end if; end", "COMMIT"),
        ("begin /* ; commit /* */ ; commit */ perform '; commit', $$; commit$$; end", ""),
        ("begin perform commit from t; end", ""),
    ],
)
def test_ends_transaction(body: str, command: str) -> None:
    assert ends_transaction(body) == command


_INNER = st.text(_SIGNS, max_size=6).filter(lambda text: "$" not in text)
_QUOTED = _INNER.map(lambda text: text.replace("'", "''"))
_ESCAPED = _INNER.map(lambda text: text.replace("\\", "\\\\").replace("'", "\\'"))
_NAME = st.text(_SIGNS, max_size=6).map(lambda text: "a" + text.replace('"', '""'))
_EXPRESSIONS = st.one_of(
    st.builds("1 as \"{}\"".format, _NAME),
    st.builds("e'{}'".format, _ESCAPED),
    st.builds("E'{}' -- ; '\n '{}' \r'{}'".format, _ESCAPED, _ESCAPED, _ESCAPED),
    st.builds("$$'{}$$".format, _INNER),
    st.builds("$é1$;$${}$é1$".format, _INNER),
    st.sampled_from(["1.5e-3", "(array[1,2])[1:2]", "1::int", "b'1'", "1 as a$b$", "(1)", "u&'\\0041;'"]),
)  # fmt: skip
_STANDARD = st.one_of(_EXPRESSIONS, st.builds("'{}'".format, _QUOTED), st.builds("n'{}'".format, _QUOTED))  # fmt: skip
_BACKSLASHES = st.one_of(
    _EXPRESSIONS.filter(lambda text: not text.startswith("u&")),
    st.builds("'{}'".format, _ESCAPED),
    st.builds("n'{}'\n'{}'".format, _ESCAPED, _ESCAPED),
)
_SPACE = st.sampled_from([" ", "\n", " /* ; /* ' */ $$ */ ", " --;'\n", ' --";\r', " ;\t; "])


@settings(max_examples=200, deadline=None)
@given(data=st.data(), standard=st.booleans())
def test_statements_are_the_servers(
    session: psycopg.Connection, data: st.DataObject, standard: bool
) -> None:
    """A text has as many statements as the server answers, however strings, comments and names are written."""
    expressions = st.lists(_STANDARD if standard else _BACKSLASHES, min_size=1, max_size=4)
    parts = [f"select {each}{data.draw(_SPACE)}" for each in data.draw(expressions)]
    text = ";".join(parts)
    session.execute(f"set standard_conforming_strings = {'on' if standard else 'off'}")
    cursor = session.execute(text.encode())
    answers = 1
    while cursor.nextset():
        answers += 1
    assert len(statements(text, standard_conforming_strings=standard)) == answers == len(parts)


@pytest.mark.parametrize(
    ("text", "names"),
    [("select É, É1, ABC", ["É", "É1", "abc"]), ('select "É", "a""B", A$1', ["É", 'a"B', "a$1"])],
)
def test_names_are_the_servers(session: psycopg.Connection, text: str, names: list[str]) -> None:
    listed = ", ".join(f"1 as {each.text}" for each in tokens(text) if each.word != "select" and each.name)  # fmt: skip
    cursor = session.execute(f"select {listed}".encode())
    assert cursor.description is not None
    assert [column.name for column in cursor.description] == names
    assert [each.name for each in tokens(text) if each.name][1:] == names
