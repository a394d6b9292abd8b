"""Tests that what is installed is complete, and uses no name but its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import textwrap
import zipfile
from pathlib import Path

import pytest

from tests.plugin.running import BANK

ROOT = Path(__file__).parent.parent
BESIDE = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
FOLDERS = ("twopc", "publisher", "subscriber", "sim", "scenarios")
#: A project whose own packages have the names of our folders.
PROJECT = """
import publisher, sim, subscriber
import twopc.publisher
import twopc.sim as sim_of_twopc
from twopc.sim.testing import topology

def test_both(twopc):
    print("\\ntwopc.sim is", sim_of_twopc.__file__)
    assert (publisher.OWN, sim.OWN, subscriber.OWN) == ("publisher", "sim", "subscriber")
    alice = twopc.session("sub1")
    alice.execute("update account set balance = 90 where id = 1")
    alice.commit()
    twopc.settle()
    twopc.assert_converged()
"""


def run(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed; its output is in the failure if it does not."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the files that git tracks, with links as links."""
    source = tmp_path_factory.mktemp("source")
    listed = run("git", "ls-files", *FOLDERS, *BESIDE, cwd=ROOT)
    for name in listed.stdout.splitlines():
        if (ROOT / name).exists():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_symlink():
                target.symlink_to((ROOT / name).readlink())
            else:
                target.write_bytes((ROOT / name).read_bytes())
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a source distribution, which contains no links, and the wheel from it."""
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--outdir", out, source, cwd=out)
    (archive,) = out.glob("*.tar.gz")
    with tarfile.open(archive) as held:
        assert not [each.name for each in held if each.issym() or each.islnk()]
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_what_is_not_python(wheel: Path) -> None:
    """The wheel contains every tracked SQL file, the files of reports and `py.typed`, and only `twopc`."""
    kinds = (
        *("*.sql", "*.css", "*.html", "*.js", "*.json", "*.svg", "*.yaml", "*/py.typed"),
        *("sim/explore/lessons/*.md", "sim/explore/page/vendor/*.txt"),
    )
    tracked = run("git", "ls-files", *kinds, cwd=ROOT).stdout.splitlines()
    wanted = {
        f"twopc/{name.removeprefix('twopc/')}"
        for name in tracked
        if name.split("/")[0] in FOLDERS and (ROOT / name).exists()
    }
    held = set(zipfile.ZipFile(wheel).namelist())

    assert wanted - held == set()
    assert "twopc/py.typed" in held
    assert {name.split("/")[0] for name in held if ".dist-info/" not in name} == {"twopc"}


def project_of_the_same_names(folder: Path) -> Path:
    """Create a user's project with packages `sim`, `publisher` and `subscriber`."""
    project = folder / "project"
    for name in ("publisher", "sim", "subscriber"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text(f'OWN = "{name}"\n', encoding="utf-8")
    (project / "conftest.py").write_text(textwrap.dedent(BANK), encoding="utf-8")
    (project / "test_it.py").write_text(PROJECT, encoding="utf-8")
    return project


def plays(environment: Path, project: Path, place: Path) -> None:
    """Assert that the project's packages are its own, and that the plugin finds ours at a place."""
    python = environment / "bin" / "python"
    told = run(python, "-m", "pytest", "-q", "-s", cwd=project, PYTHONPATH="")
    assert "1 passed" in told.stdout
    found = next(line for line in told.stdout.splitlines() if line.startswith("twopc.sim is "))
    assert Path(found.removeprefix("twopc.sim is ")).is_relative_to(place)


@pytest.mark.slow
def test_an_empty_environment_runs_a_scenario_and_a_test(wheel: Path, tmp_path: Path) -> None:
    """Scenarios and tests need only the wheel and its requirements; pictures are an extra."""
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    # little of what is installed is imported, and that is compiled on import
    pip = [sys.executable, "-m", "pip", "--python", environment]
    run(*pip, "install", "-q", "--no-compile", f"{wheel}[pytest]", cwd=tmp_path)
    (libraries,) = environment.glob("lib/python*/site-packages")
    assert not [name for name in ("numpy", "matplotlib", "PIL") if (libraries / name).exists()]

    scenario = "scenarios/immediate/lost_update.twopc.yaml"  # it is part of the wheel
    done = run(environment / "bin" / "twopc", "run", scenario, cwd=tmp_path)

    assert "alice first" in done.stdout
    plays(environment, project_of_the_same_names(tmp_path), environment)


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--editable"], []], ids=["editable", "copied"])
def test_a_folder_of_sources_is_installed(options: list[str], source: Path, tmp_path: Path) -> None:
    """A source folder, whose links have a user's names, is installed in place or through a wheel.

    The core is compiled in the first case, if there is a compiler; the second case has none, and works without.
    """
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    pip = [sys.executable, "-m", "pip", "--python", environment, "install", "-q", "--no-deps"]
    compiler = shutil.which(sysconfig.get_config_var("CC").split()[0]) if options else None
    run(*pip, *options, source, cwd=tmp_path, CC=compiler or "/nowhere/cc")
    # requirements are taken from this environment: a path that is no site directory activates nothing else
    (libraries,) = environment.glob("lib/python*/site-packages")
    (libraries / "required.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")

    place = source if options else environment
    plays(environment, project_of_the_same_names(tmp_path), place)
    words = "from twopc.doctor import core_finding, format_findings; print(*format_findings([core_finding()]))"
    told = run(environment / "bin" / "python", "-c", words, cwd=tmp_path, PYTHONPATH="").stdout
    assert told.startswith("ok       core  compiled" if compiler else "warning  core  plain Python")
