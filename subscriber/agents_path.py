"""Where procedures and triggers of users find objects without schema when an agent changes a table."""

from __future__ import annotations

from typing import LiteralString

SEARCH_PATH: LiteralString = """(
    select pg_catalog.concat_ws(', ', 'pg_catalog', (
        select n.nspname from pg_catalog.pg_namespace n
        where n.nspname = 'public' and not exists (
            select from pg_catalog.pg_roles r
            where not r.rolsuper and r.oid >= 16384 and has_schema_privilege(r.oid, n.oid, 'create'))
    ), 'pg_temp'))"""
"""An expression: pg_catalog, and public where nobody but superusers may create objects.

What agents call runs with their rights, and an operator that fits better than one of PostgreSQL's is taken.
"""
