"""The modules of `twopc.core`, both compiled and plain, whichever of them the product uses here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from twopc.core.compilation import PLAIN, compiled_name

ROOT = Path(__file__).parents[1]


def plain(name: str) -> ModuleType:
    """Return the plain Python module."""
    return import_module(f"twopc.core.{name}")


def compiled(name: str, cache: Path) -> ModuleType:
    """Return the compiled module, compiling it if necessary; skip the test if there is no compiler."""
    source = ROOT / "twopc" / "core" / f"{name}.py"
    file = compiled_name(name, source.read_bytes()) + str(sysconfig.get_config_var("EXT_SUFFIX"))
    path = next((each for each in (source.parent / file, cache / file) if each.exists()), None)
    if path is None:
        build = cache / f"build{os.getpid()}"
        words = ("build_ext", "--build-lib", build / "lib", "--build-temp", build / "temp")
        subprocess.run(
            [sys.executable, "setup.py", "-q", *map(str, words)],
            cwd=ROOT, check=True, capture_output=True, env={**os.environ, PLAIN: ""},
        )  # fmt: skip
        for made in build.glob("lib/twopc/core/*"):
            made.rename(cache / made.name)
        shutil.rmtree(build)
        path = cache / file
        if not path.exists():
            pytest.skip("there is no C compiler")
    spec = spec_from_file_location(path.name.partition(".")[0], path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
