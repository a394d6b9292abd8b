"""Create the table with one row."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade():
    """Upgrade to this revision."""
    op.create_table(
        "account",
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("balance", sa.Integer, nullable=False),
    )
    op.execute("insert into account (balance) values (100)")
