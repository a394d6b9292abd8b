"""Search path by which users' procedures and triggers find unqualified names when an agent changes a table."""

from __future__ import annotations

from typing import LiteralString

SEARCH_PATH: LiteralString = """(
    select pg_catalog.concat_ws(', ', 'pg_catalog', (
        select n.nspname from pg_catalog.pg_namespace n
        where n.nspname = 'public' and not exists (
            select from pg_catalog.pg_roles r
            where not r.rolsuper and r.oid >= 16384 and has_schema_privilege(r.oid, n.oid, 'create'))
    ), 'pg_temp'))"""
"""SQL expression: pg_catalog, and public if only superusers may create objects there.

The functions that agents call run with the agents' rights, and PostgreSQL prefers a better-matching operator of
another schema to its own.
"""
