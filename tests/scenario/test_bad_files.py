"""Every file in ``bad/`` is refused with exactly the report beside it.

``pytest tests/scenario/test_bad_files.py --rewrite-golden`` rewrites the reports; review the
difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from twopc.errors import ScenarioError
from twopc.sim.scenario.check import examine, load

BAD = Path(__file__).parent / "bad"
FILES = sorted(path.name for path in BAD.glob("*.twopc.yaml"))
#: Files with warnings only, which can be played.
ONLY_UNTIDY = {f"{name}.twopc.yaml" for name in ("warnings_only", "tiny_table", "same_order_twice")}


@pytest.fixture(autouse=True)
def _in_bad(monkeypatch):
    monkeypatch.chdir(BAD)


@pytest.mark.parametrize("name", FILES)
def test_report(name, request):
    document, _ = examine(name)
    report = document.report() + "\n"
    expected = Path(name).with_suffix("").with_suffix(".expected")
    if request.config.getoption("--rewrite-golden", default=False):
        expected.write_text(report, encoding="utf-8")
    assert report == expected.read_text(encoding="utf-8")
    if name in ONLY_UNTIDY:
        assert load(name).scenario.orders
    else:
        with pytest.raises(ScenarioError, match=f"^({name}|[.][.]/fragments/.*):"):
            document.raise_errors()


def test_enough():
    assert len(FILES) >= 230
    assert {path.stem for path in BAD.glob("*.expected")} == {
        name.removesuffix(".twopc.yaml") for name in FILES
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "twopc: 1\nname: Läden\n".encode("latin-1"),
            ":2:8: error: byte 0xe4 is not UTF-8: save the file in UTF-8",
        ),
        (b"x" * 1_000_001, ": over 1000000 bytes is too long for a scenario"),
    ],
)
def test_not_a_text_of_ours(tmp_path, content, message):
    path = tmp_path / "odd.twopc.yaml"
    path.write_bytes(content)
    with pytest.raises(ScenarioError) as caught:
        load(path)
    assert str(caught.value) == f"{path}{message}"


def test_not_there(tmp_path):
    with pytest.raises(ScenarioError, match="cannot read it: No such file"):
        load(tmp_path / "none.twopc.yaml")
