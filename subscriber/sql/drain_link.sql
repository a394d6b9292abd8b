-- msrepl.drain_link: after a cancelled message, stops the statement at the Publisher and empties the link.
-- called by: whoever sends over the link, when the caller was cancelled
-- tables:    none
-- holes:     owner, link
--
-- A cancel does not travel: the statement would run on at the Publisher, and the link would answer
-- "another command is already in progress". The wait is bounded, because the cancel that brought us here
-- does not come twice: half a second for a Publisher that takes the cancel but whose backend does not react,
-- 30 s (dblink's own bound) for one that does not answer at all. Then the link is dropped, and the
-- transaction at its other end with it.
create or replace function msrepl.drain_link() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set client_min_messages = error
as $msrepl$
declare
    was_empty boolean := false;
    is_empty boolean;
begin
    perform msrepl_link.dblink_cancel_query({link});
    for turn in 1 .. 50 loop
        if msrepl_link.dblink_is_busy({link}) = 1 then
            perform pg_sleep(0.01);
        else
            -- an error counts as no row too, so only a second empty answer says that nothing is left
            is_empty := not exists (select from msrepl_link.dblink_get_result({link}, false) as t(tag text));
            if is_empty and was_empty then
                return;
            end if;
            was_empty := is_empty;
        end if;
    end loop;
    perform msrepl_link.dblink_disconnect({link});
exception when others then
    -- the link is gone altogether: the next message opens it
    if {link} = any (msrepl_link.dblink_get_connections()) then
        perform msrepl_link.dblink_disconnect({link});
    end if;
end
$msrepl$;
alter function msrepl.drain_link() owner to {owner};
revoke all on function msrepl.drain_link() from public;
comment on function msrepl.drain_link() is 'Stops what runs over the link and empties it';
