"""SQL objects: one ``.sql`` file each, whose placeholders are filled by `psycopg.sql` only."""

from __future__ import annotations

from twopc.sql.render import render

__all__ = ["render"]
