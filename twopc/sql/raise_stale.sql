-- msrepl.raise_stale: the error of a procedure or trigger whose table has another structure now.
-- called by: bodies put in place by ddl_guard
-- tables:    none
-- holes:     owner
create or replace function msrepl.raise_stale(table_schema text, table_name text, place text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    article constant text := case when $1 = 'public' then $2 else $1 || '.' || $2 end;
begin
    raise exception 'table % was altered at the %: its replication objects no longer fit', article, $3
        using errcode = 'object_not_in_prerequisite_state',
              detail = json_build_object('kind', 'stale_article', 'number', 20500,
                                         'article', article, 'place', $3)::text,
              hint = 'Run: twopc regenerate ' || article;
end
$msrepl$;
alter function msrepl.raise_stale(text, text, text) owner to {owner};
revoke all on function msrepl.raise_stale(text, text, text) from public;
comment on function msrepl.raise_stale(text, text, text) is 'Says that generated objects no longer fit their table';
