-- msrepl_call.args_<n>: the call of a published routine as it is stored, independent of the caller's settings.
-- called by: msrepl_call.run_<n>
-- tables:    none
-- holes:     name, parameters, types, values, signature
--
-- Values are written by the output functions of their types, which a cast to text may not use.
create or replace function msrepl_call.{name}({parameters}) returns text
language sql stable
set search_path = pg_catalog, pg_temp
set datestyle = 'ISO, MDY'
set intervalstyle = 'postgres'
set timezone = 'UTC'
set extra_float_digits = 1
set bytea_output = 'hex'
set lc_monetary = 'C'
set xmloption = 'content'
as $msrepl$
    select jsonb_build_object('v', jsonb_build_array({values}){types}, 's', $1)::text
$msrepl$;
revoke all on function msrepl_call.{name}({signature}) from public;
grant execute on function msrepl_call.{name}({signature}) to public;
comment on function msrepl_call.{name}({signature}) is 'The call of a published routine as it is stored';
