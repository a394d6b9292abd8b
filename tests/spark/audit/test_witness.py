"""Tests of the SQL texts of the delivery witness."""

from __future__ import annotations

from collections.abc import Callable

from twopc.sim.spark.audit import witness
from twopc.sql.render import render


def test_texts(golden: Callable[[str, str], None]) -> None:
    """The texts for a table with names that need quotes match the golden file."""
    article = {
        "article_id": 7, "source_schema": "Sales", "source_object": 'the "order"\'s line',
        "columns": ["Id", "n o", "msrepl_tran_version"], "key": [1, 0], "version": 2,
    }  # fmt: skip
    texts = [render("twopc.sim.spark.audit", "witness_table"), *witness.texts(article)]
    golden("sim/delivery_witness.sql", "\n".join(texts))


def test_a_table_without_a_version(golden: Callable[[str, str], None]) -> None:
    """Changes of a table without row versions are recorded without one."""
    article = {
        "article_id": 1, "source_schema": "public", "source_object": "t", "columns": ["id"], "key": [0], "version": None,
    }  # fmt: skip
    golden("sim/delivery_witness_of_a_plain_table.sql", "\n".join(witness.texts(article)))
