"""The initial data of the examples' databases."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def twopc_template():
    return [Path(__file__).with_name("bank.sql")]
