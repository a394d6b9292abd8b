"""Tests of settings: option, environment, pyproject.toml, default, in the order of precedence."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest

from twopc.sim.settings import (
    RunSettings,
    SettingError,
    duration_ms,
    load,
    variable,
    written,
)

#: For each setting: what an option, the environment and the file contain, each with its result.
VALUES = {
    "pg": (("embedded", "embedded"), ("postgresql://h/d", "postgresql://h/d"), ("/bin", "/bin")),
    "seed": ((3, 3), ("0", 0), (7, 7)),
    "jobs": ((2, 2), ("3", 3), (4, 4)),
    "timeout_ms": ((500, 500), ("2s", 2000), ("3m", 180_000)),
    "out": (("a", "a"), ("b", "b"), ("c", "c")),
    "keep": (("all", "all"), ("none", "none"), ("failed", "failed")),
    "orders": (("all", "all"), ("sample:5", "sample:5"), ("sample:6", "sample:6")),
    "repeat": ((5, 5), ("6", 6), (7, 7)),
    "report": (("a", "a"), ("b", "b"), ("c", "c")),
    "servers": (("each", "each"), ("one", "one"), ("each", "each")),
    "on": (("model", "model"), ("postgres", "postgres"), ("both", "both")),
}


def test_every_setting_has_values_here():
    assert set(VALUES) == {field.name for field in dataclasses.fields(RunSettings)}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("said", list(itertools.product([True, False], repeat=3)), ids=str)
def test_precedence(tmp_path, name, said):
    by_flag, by_environment, by_file = said
    (flag, flagged), (text, from_text), (toml, from_toml) = VALUES[name]
    flags = {name: flag if by_flag else None}
    environment = {variable(name): text} if by_environment else {}
    file = tmp_path / "pyproject.toml"
    file.write_text(
        f"[tool.twopc]\n{written(name)} = {toml!r}\n" if by_file else "", encoding="utf-8"
    )
    inner = tmp_path / "inner"
    inner.mkdir()

    found = getattr(load(flags, environment=environment, start=inner), name)

    if by_flag:
        assert found == flagged
    elif by_environment:
        assert found == from_text
    elif by_file:
        assert found == from_toml
    else:
        assert found == getattr(RunSettings(), name)


#: Settings that accept any text.
ANY_TEXT = ("pg", "out", "report")


@pytest.mark.parametrize(
    ("name", "of"),
    [
        (name, of)
        for name in VALUES
        for of in ("option", "environment", "file")
        if of != "environment" or name not in ANY_TEXT
    ],
)
def test_an_error_names_the_source_of_the_value(tmp_path, name, of):
    """A wrong value's source is named, although sources of lower precedence have right ones."""
    _, (text, _), (toml, _) = VALUES[name]
    wrong = "[]" if of == "file" else repr(toml)
    file = tmp_path / "pyproject.toml"
    file.write_text(f"[tool.twopc]\n{written(name)} = {wrong}\n", encoding="utf-8")
    flags = {name: []} if of == "option" else {}
    environment = {
        "option": {variable(name): text},
        "environment": {variable(name): "?"},
        "file": {},
    }
    sources = {
        "option": f"--{written(name)}",
        "environment": variable(name),
        "file": f"[tool.twopc] {written(name)} in {file}",
    }
    with pytest.raises(SettingError) as caught:
        load(flags, environment=environment[of], start=tmp_path)
    assert str(caught.value).startswith(f"{sources[of]}: ")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("sed = 1", r"\[tool.twopc\] sed in .*pyproject.toml: there is no such setting; did you mean 'seed'\?"),
        ("colour = 'red'", "there is no such setting; there are pg, seed, jobs, timeout, out"),
        ("seed = -1", r"\[tool.twopc\] seed in .*: it is a number from 0, not '-1'"),
        ("seed = true", "it is text or a number, not True"),
        ("jobs = 0", "jobs in .*: it is a number from 1, not '0'"),
        ("jobs = [2]", r"it is text or a number, not \[2\]"),
        ("timeout = 'soon'", "a duration is written as 500ms, 5s or 2m, not 'soon'"),
        ("timeout = 30", "a duration is written as 500ms, 5s or 2m, not '30'"),
        ("timeout = '0s'", "timeout in .*: it is a time limit over 0, not '0s'"),
        ("keep = 'some'", "it is failed, all or none, not 'some'"),
        ("orders = 'sample:0'", "it is all or sample:N, not 'sample:0'"),
        ("servers = 'two'", "it is one or each, not 'two'"),
    ],
)  # fmt: skip
def test_mistakes_in_the_file(tmp_path, table, message):
    (tmp_path / "pyproject.toml").write_text(f"[tool.twopc]\n{table}\n", encoding="utf-8")
    with pytest.raises(SettingError, match=message):
        load({}, environment={}, start=tmp_path)


def test_a_file_that_is_none(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.twopc\n", encoding="utf-8")
    with pytest.raises(SettingError, match=r"pyproject.toml: not TOML: "):
        load({}, environment={}, start=tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool]\ntwopc = 3\n", encoding="utf-8")
    with pytest.raises(SettingError, match=r"it is a table, not 3"):
        load({}, environment={}, start=tmp_path)


def test_the_nearest_file_with_a_table(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.twopc]\nseed = 1\njobs = 2\n", encoding="utf-8")
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\nseed = 9\n", encoding="utf-8")
    assert load({}, environment={}, start=inner) == RunSettings(seed=1, jobs=2)
    (inner / "pyproject.toml").write_text("[tool.twopc]\nseed = 3\n", encoding="utf-8")
    assert load({}, environment={}, start=inner) == RunSettings(seed=3)


def test_an_empty_variable_says_nothing(tmp_path):
    assert load({}, environment={"TWOPC_SEED": ""}, start=tmp_path) == RunSettings()
    with pytest.raises(SettingError, match="TWOPC_SEED: it is a number from 0, not 'x'"):
        load({}, environment={"TWOPC_SEED": "x"}, start=tmp_path)


@pytest.mark.parametrize(
    ("text", "ms"), [("500ms", 500), ("5s", 5000), ("1.5 s", 1500), ("2m", 120_000)]
)
def test_durations(text, ms):
    assert duration_ms(text) == ms


def test_the_page_about_settings():
    """The page lists every setting with its variable and default."""
    text = (Path(__file__).parents[2] / "docs/settings.md").read_text(encoding="utf-8")
    rows = {
        row[0].strip(" `"): row
        for line in text.splitlines()
        if line.startswith("| `") and (row := line.strip("|").split("|"))
    }
    assert list(rows) == [written(name) for name in VALUES]
    for name in VALUES:
        row, default = rows[written(name)], getattr(RunSettings(), name)
        assert f"`{variable(name)}`" in row[2]
        if default:
            assert str(default) in row[3]
