-- msrepl.introduce_coordinator: registers a coordinator process here, before its first session.
-- called by: the coordinator
-- tables:    msrepl.coordinator_key
-- holes:     owner
create or replace function msrepl.introduce_coordinator(
    key_id text, coordinator text, epoch bigint, key bytea) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    insert into msrepl.coordinator_key values ($1, $2, $3, $4) on conflict do nothing
$msrepl$;
alter function msrepl.introduce_coordinator(text, text, bigint, bytea) owner to {owner};
revoke all on function msrepl.introduce_coordinator(text, text, bigint, bytea) from public;
comment on function msrepl.introduce_coordinator(text, text, bigint, bytea) is 'Makes a coordinator process known';
