-- msrepl.refuse_partition: refuses changes of a partition that has no triggers of the subscription yet.
-- called by: BEFORE STATEMENT trigger of the partition, see close_partition; arguments: schema and name of the article
-- tables:    none
-- holes:     owner
create or replace function msrepl.refuse_partition() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    perform msrepl.raise_stale(tg_argv[0], tg_argv[1], 'Subscriber');
    return null;
end
$msrepl$;
alter function msrepl.refuse_partition() owner to {owner};
revoke all on function msrepl.refuse_partition() from public;
comment on function msrepl.refuse_partition() is 'Refuses changes of a partition that has no triggers of the subscription yet';
