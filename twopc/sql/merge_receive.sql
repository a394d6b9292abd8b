-- msrepl.merge_receive: records how far the neighbour's generations have arrived, in the commit of their rows.
-- called by: merge agents
-- tables:    msrepl.sysmergesubscriptions; see msrepl.merge_forget_failures
-- holes:     owner
create or replace function msrepl.merge_receive(generation int8, guid uuid, is_whole boolean) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
    update msrepl.sysmergesubscriptions as s
    set coming_gen = case when not is_whole then $1 end,
        coming_guid = case when not is_whole then $2 end,
        recgen = case when is_whole then $1 else s.recgen end,
        recguid = case when is_whole then $2 else s.recguid end
    where s.subscriber_server = (msrepl.merge_neighbour()).subscriber_server;
    if $3 then
        perform msrepl.merge_forget_failures();
    end if;
end
$msrepl$;
alter function msrepl.merge_receive(int8, uuid, boolean) owner to {owner};
revoke all on function msrepl.merge_receive(int8, uuid, boolean) from public;
comment on function msrepl.merge_receive(int8, uuid, boolean) is 'Marks what has arrived from a neighbour';
