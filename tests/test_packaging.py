"""What is installed is complete: a wheel in an empty environment runs a scenario."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("twopc", "publisher", "subscriber", "sim")


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed; its output is in the failure if it does not."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what git tracks."""
    source = tmp_path_factory.mktemp("source")
    listed = run("git", "ls-files", *PACKAGES, "pyproject.toml", "README.md", "LICENSE", cwd=ROOT)
    for name in listed.stdout.splitlines():
        if (ROOT / name).exists():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", out, source, cwd=out)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_what_is_not_python(wheel: Path) -> None:
    """Every tracked SQL file, what reports are made of, and every `py.typed` is inside."""
    kinds = ("*.sql", "*.css", "*.js", "*.json", "*/py.typed")
    tracked = run("git", "ls-files", *kinds, cwd=ROOT).stdout.splitlines()
    wanted = {name for name in tracked if name.split("/")[0] in PACKAGES and (ROOT / name).exists()}
    held = set(zipfile.ZipFile(wheel).namelist())

    assert wanted - held == set()
    assert {f"{package}/py.typed" for package in PACKAGES} <= held


@pytest.mark.slow
def test_an_empty_environment_runs_a_scenario(wheel: Path, tmp_path: Path) -> None:
    """Nothing but the wheel and what it asks for is needed."""
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    # of all that is installed little is imported: what is compiles itself
    pip = [sys.executable, "-m", "pip", "--python", environment]
    run(*pip, "install", "-q", "--no-compile", wheel, cwd=tmp_path)

    scenario = ROOT / "scenarios" / "immediate" / "lost_update.twopc.yaml"
    done = run(environment / "bin" / "twopc", "run", scenario, cwd=tmp_path)

    assert "alice first" in done.stdout
