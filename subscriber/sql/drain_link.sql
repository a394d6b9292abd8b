-- msrepl.drain_link: after a cancelled call, stops the statement at the Publisher and empties the link.
-- called by: capture triggers and prepare_publisher, when the caller was cancelled
-- tables:    none
-- holes:     owner, link
--
-- A cancel does not travel: the statement would run on at the Publisher, and the link would answer
-- "another command is already in progress". The wait is bounded, because the cancel that brought us here
-- does not come twice.
create or replace function msrepl.drain_link() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    perform msrepl_link.dblink_cancel_query({link});
    for turn in 1 .. 50 loop
        if msrepl_link.dblink_is_busy({link}) = 0 then
            exit when not exists (select from msrepl_link.dblink_get_result({link}, false) as t(tag text));
        else
            perform pg_sleep(0.01);
        end if;
    end loop;
    if msrepl_link.dblink_is_busy({link}) = 1 then
        perform msrepl_link.dblink_disconnect({link});
    end if;
exception when others then
    -- the link is gone altogether: the next call opens it
    if {link} = any (msrepl_link.dblink_get_connections()) then
        perform msrepl_link.dblink_disconnect({link});
    end if;
end
$msrepl$;
alter function msrepl.drain_link() owner to {owner};
revoke all on function msrepl.drain_link() from public;
comment on function msrepl.drain_link() is 'Stops what runs over the link and empties it';
