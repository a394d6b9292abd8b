"""Tests of ``twopc merge snapshot``, and of subscriptions that begin with its files."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from twopc.server import EmbeddedServer

_DATABASES = {name: f"snap_{name}" for name in ("pub", "anna", "ben")}


@pytest.fixture
def nodes(server: EmbeddedServer, twopc: Any) -> Iterator[list[str]]:
    """Options that name three databases; pub has customers in regions."""
    server.create_database(*_DATABASES.values())
    dsns = {name: server.superuser_dsn(database) for name, database in _DATABASES.items()}
    with psycopg.connect(dsns["pub"]) as connection:
        connection.execute("create table customer (id int primary key, region text)")
        connection.execute("insert into customer values (1, 'north'), (2, 'south'), (3, 'north')")
    words = [word for name, dsn in dsns.items() for word in ("--node", f"{name}={dsn}")]
    yield words
    for name in ("anna", "ben"):
        twopc("merge", "unsubscribe", name, *_of(words, "pub", name))
    assert twopc("merge", "unpublish", "customer", *_of(words, "pub")).returncode == 0
    server.drop_database(*_DATABASES.values())


def _of(words: list[str], *names: str) -> list[str]:
    return [part for name in names for part in ("--node", _dsn(words, name))]


def _dsn(words: list[str], name: str) -> str:
    return next(word for word in words if word.startswith(f"{name}="))


def _publish(twopc: Any, nodes: list[str], *options: str) -> None:
    assert twopc("merge", "publish", "customer", *options, *_of(nodes, "pub")).returncode == 0


def test_written_delivered_and_delivered_anew(twopc, nodes, tmp_path: Path) -> None:
    """Without a terminal, each file has a line; a delivery that was cut off can be continued.

    So can a reinitialisation.
    """
    _publish(twopc, nodes)
    ran = twopc("merge", "snapshot", *_of(nodes, "pub"))
    assert (ran.returncode, "name the folder for snapshots" in ran.stderr) == (4, True), ran
    ran = twopc("merge", "snapshot", "--folder", tmp_path / "s", "--jobs", "2", *_of(nodes, "pub"))
    [folder] = (tmp_path / "s" / "unc").iterdir()
    assert ran.stdout == f"{folder}: 7 files written; 3 rows\n", ran.stderr
    assert [line.split()[1] for line in ran.stderr.splitlines()] == [f"{n}/7" for n in range(1, 8)]
    ran = twopc("merge", "snapshot", "--json", *_of(nodes, "pub"))
    assert [(each["files"], each["kept"]) for each in json.loads(ran.stdout)] == [(0, 7)]

    [part] = folder.glob("*.bcp")
    text = part.read_bytes()
    part.write_bytes(text.swapcase())
    both = _of(nodes, "pub", "anna")
    ran = twopc("merge", "subscribe", "anna", *both)
    assert (ran.returncode, "was altered" in ran.stderr) == (1, True), ran
    part.write_bytes(text)
    ran = twopc("merge", "subscribe", "anna", "--type", "server", "--priority", "5", *both)
    assert ran.stdout.startswith(
        f"anna: subscribes, priority 5; 5 files of {folder}, 2 were there;"
    ), ran.stderr
    assert "anna: 7/7 " in ran.stderr

    part.rename(tmp_path / "gone")
    ran = twopc("merge", "reinit", "anna", *both)
    assert (ran.returncode, "is missing" in ran.stderr) == (1, True), ran
    (tmp_path / "gone").rename(part)
    ran = twopc("merge", "reinit", "anna", "--upload-first", "--snapshot", folder, *both)
    assert ran.stdout == f"anna: begins anew; 7 files of {folder}; no change is lost\n", ran.stderr
    ran = twopc("merge", "sync", "--validate", "2", *both)
    assert ran.stdout.endswith("customer: 3 rows are the same\n"), ran


def test_partitions_and_snapshots_on_demand(twopc, nodes, tmp_path: Path) -> None:
    """Each partition has a folder; one is written for a Subscriber whose partition has none."""
    _publish(twopc, nodes, "--filter", "region = msrepl.host_name()")
    words = ("--partition", "north", "--partition", "../x", "--on-demand")
    ran = twopc("merge", "snapshot", "--folder", tmp_path, *words, *_of(nodes, "pub"))
    north, odd = ran.stdout.splitlines()
    assert "/north_" in north
    assert north.endswith(" 2 rows")
    assert "/..%2Fx_" in odd
    assert "../x: 1/" in ran.stderr
    ran = twopc("merge", "snapshot", "--login", "x", *_of(nodes, "pub"))
    assert (ran.returncode, "20698" in ran.stderr) == (4, True), ran
    ran = twopc("merge", "subscribe", "anna", "--host-name", "south", *_of(nodes, "pub", "anna"))
    assert "/south_" in ran.stdout, ran.stderr


def test_a_bar_on_a_terminal(twopc, nodes, tmp_path: Path) -> None:
    """A progress bar is drawn on the terminal of standard error, and not on standard output."""
    _publish(twopc, nodes)
    ours, theirs = pty.openpty()
    command = (sys.executable, "-m", "twopc.sim", "merge", "snapshot", "--folder", tmp_path)
    done = subprocess.run(
        (*command, *_of(nodes, "pub")),
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm"},
        check=False,
        text=True,
    )
    os.close(theirs)
    drawn = os.read(ours, 65536).decode()
    os.close(ours)
    assert (done.returncode, done.stdout.endswith("7 files written; 3 rows\n")) == (0, True), drawn
    assert "7/7" in drawn
    assert "\x1b[" in drawn
