"""SQL objects: one ``.sql`` file each, filled by `psycopg.sql` and by nothing else."""

from __future__ import annotations

from twopc.sql.render import render

__all__ = ["render"]
