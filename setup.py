"""Has mypyc compile `twopc.core`, where there is a C compiler; everything else is said in `pyproject.toml`."""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CORE = Path("twopc", "core")
_names = runpy.run_path(str(CORE / "compilation.py"))
MODULES, PLAIN, compiled_name = _names["MODULES"], _names["PLAIN"], _names["compiled_name"]
SOURCES = {name: CORE / f"{name}.py" for name in MODULES}


def obstacle() -> str:
    """Why nothing can be compiled; empty if it can."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if os.environ.get(PLAIN):
        return f"{PLAIN} is set"
    if shutil.which(shlex.split(command)[0]) is None:
        return f"there is no C compiler ({command})"
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return "there are no headers of Python"
    return ""


class BuildCore(build_ext):
    """Makes C of a module before it is compiled. The installation goes on without what cannot be made."""

    def build_extension(self, ext: Extension) -> None:
        """One of them."""
        reason = obstacle()
        if reason:
            print(f"twopc.core is not compiled and runs as it stands: {reason}")
            return
        from mypyc.build import mypycify  # loaded only where it is used

        (source,) = ext.sources
        name = ext.name.rpartition(".")[2]
        for old in CORE.glob(f"_{Path(source).stem}_*"):
            if not old.name.startswith(f"{name}."):
                old.unlink()  # of another text
        folder = Path(self.build_temp, name).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        copy = folder / f"{name}.py"
        shutil.copyfile(source, copy)
        options = ["--config-file=", f"--cache-dir={folder / 'mypy'}", str(copy)]
        (made,) = mypycify(options, target_dir=str(folder), opt_level="3")
        ext.sources, ext.depends = made.sources, made.depends
        ext.include_dirs = made.include_dirs
        # a compiler that warns of something else than those that mypyc knows still compiles
        ext.extra_compile_args = [each for each in made.extra_compile_args if each != "-Werror"]
        super().build_extension(ext)


setup(
    cmdclass={"build_ext": BuildCore},
    ext_modules=[
        Extension(
            f"twopc.core.{compiled_name(name, source.read_bytes())}", [str(source)], optional=True
        )
        for name, source in SOURCES.items()
    ],
)
