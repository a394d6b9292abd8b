-- msrepl_call.settings: the caller's settings under which a body must also run at a Subscriber.
-- called by: msrepl_call.run_<n>
-- tables:    none
-- holes:     owner
--
-- search_path lists the schemas that exist, since "$user" differs at a Subscriber. Settings that equal
-- those of agents are left out.
create or replace function msrepl_call.settings() returns jsonb
language sql stable
as $msrepl$
    select pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
        'search_path', coalesce(
            (select pg_catalog.string_agg(pg_catalog.quote_ident(u.name), ', ' order by u.place)
             from pg_catalog.unnest(pg_catalog.current_schemas(false)) with ordinality as u(name, place)), ''),
        'timezone', pg_catalog.current_setting('timezone'),
        'datestyle', nullif(pg_catalog.current_setting('datestyle'), 'ISO, MDY'),
        'intervalstyle', nullif(pg_catalog.current_setting('intervalstyle'), 'postgres'),
        'extra_float_digits', nullif(pg_catalog.current_setting('extra_float_digits'), '1'),
        'bytea_output', nullif(pg_catalog.current_setting('bytea_output'), 'hex'),
        'xmloption', nullif(pg_catalog.current_setting('xmloption'), 'content'),
        'array_nulls', nullif(pg_catalog.current_setting('array_nulls'), 'on'),
        'transform_null_equals', nullif(pg_catalog.current_setting('transform_null_equals'), 'off')))
$msrepl$;
alter function msrepl_call.settings() owner to {owner};
revoke all on function msrepl_call.settings() from public;
grant execute on function msrepl_call.settings() to public;
comment on function msrepl_call.settings() is 'The caller''s settings under which a body must run at a Subscriber too';
