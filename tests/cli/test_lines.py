"""Tests of reading lines while an event loop runs."""

from __future__ import annotations

import asyncio
import os

from twopc.sim.cli.step import Lines


async def test_a_pipe(capsys):
    """Lines are complete, however they were written; the last one may lack a line break."""
    reading, writing = os.pipe()
    lines = Lines(reading)
    os.write(writing, b"one\ntw")
    assert await lines.next("> ") == "one"
    waiting = asyncio.ensure_future(lines.next("> "))
    await asyncio.sleep(0)
    assert not waiting.done()
    os.write(writing, "o\r\ndreí".encode())
    assert await waiting == "two"
    os.close(writing)
    assert await lines.next("> ") == "dreí"
    assert await lines.next("> ") is None
    os.close(reading)
    assert capsys.readouterr().out == "> one\n> two\n> \n> \n"


async def test_a_file(tmp_path, capsys):
    """A file, which an event loop cannot watch, is read without watching."""
    (tmp_path / "commands").write_text("n\n\nq\n", encoding="utf-8")
    file = os.open(tmp_path / "commands", os.O_RDONLY)
    lines = Lines(file)
    assert [await lines.next("") for _ in range(4)] == ["n", "", "q", None]
    os.close(file)


async def test_somebody_gives_up():
    reading, writing = os.pipe()
    waiting = asyncio.ensure_future(Lines(reading).next(""))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    asyncio.get_running_loop().add_reader(reading, lambda: None)  # it is no longer watched
    asyncio.get_running_loop().remove_reader(reading)
    os.close(reading)
    os.close(writing)
