-- msrepl.shown_detail: returns the part of a DETAIL of the Publisher's that the caller may see.
-- called by: explain_failure
-- tables:    msrepl.msreplication_objects; catalogs
-- holes:     owner
--
-- The link's role may read more than the application's. Columns that the latter may not select here are removed
-- from the Publisher's row; under row security all of them, since it cannot be determined whether the role would
-- see that row. The key and the versions belong to the row that the caller itself has changed; the key of a row
-- that a trigger of the Publisher has changed is treated like the row. Where a constraint is violated, the
-- server's own DETAIL shows whole rows, and is removed.
--
-- The role is the session's, or the one that it has set: the current one is that of a SECURITY DEFINER function.
create or replace function msrepl.shown_detail(state text, detail text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    reader constant name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    facts json;
    relation oid;
    is_open boolean;
begin
    if detail is null or (select r.rolsuper from pg_roles as r where r.rolname = reader) then
        return detail;
    elsif not starts_with(detail, chr(123) || '"kind" : ') or not pg_input_is_valid(detail, 'json') then
        return case when state !~ '^23' then detail end;
    end if;
    facts := detail;
    if coalesce(facts ->> 'publisher_row', case facts ->> 'kind' when 'triggered_change' then facts ->> 'key' end) is null then
        return detail;
    end if;
    select c.oid, not c.relrowsecurity or r.rolbypassrls
                  or not c.relforcerowsecurity and pg_has_role(reader, c.relowner, 'usage')
    into relation, is_open
    from msrepl.msreplication_objects as o
    join pg_class as c on c.oid = o.objid
    join pg_roles as r on r.rolname = reader
    where facts ->> 'article' = case o.dest_schema when 'public' then o.article
                                else o.dest_schema || '.' || o.article end;
    if is_open and has_table_privilege(reader, relation, 'select') then
        return detail;
    end if;
    return (
        select json_object_agg(fact.key, case
            when fact.key = 'publisher_row' or fact.key = 'key' and facts ->> 'kind' = 'triggered_change' then (
                select json_object_agg(v.key, v.value)
                from json_each(fact.value) as v
                join pg_attribute as a on a.attrelid = relation and a.attname = v.key
                where is_open and json_typeof(fact.value) = 'object'
                  and has_column_privilege(reader, relation, a.attnum, 'select'))
            else fact.value end)
        from json_each(facts) as fact);
end
$msrepl$;
alter function msrepl.shown_detail(text, text) owner to {owner};
revoke all on function msrepl.shown_detail(text, text) from public;
comment on function msrepl.shown_detail(text, text) is 'What of a DETAIL of the Publisher''s the caller may be told';
