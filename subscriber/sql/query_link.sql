-- msrepl.query_link: sends a message whose last statement returns one value, and returns that value as text.
-- called by: fetch_generated, explain_failure, prepare_again, fetch_stored, capture triggers of tables
--            whose rows are written back
-- tables:    none
-- holes:     owner, link
--
-- dblink() would need only one call, but it waits for the answer even when it is cancelled. The answer of
-- each statement has to be fetched, and then an empty one, or the link stays busy. After an error the
-- link is empty.
create or replace function msrepl.query_link(command text) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set client_min_messages = error
as $msrepl$
declare
    answer text;
    last text;
begin
    if msrepl_link.dblink_send_query({link}, command) <> 1 then
        raise exception '%', msrepl_link.dblink_error_message({link}) using errcode = 'connection_failure';
    end if;
    loop
        select t.answer into answer from msrepl_link.dblink_get_result({link}) as t(answer text);
        exit when not found;
        last := answer;
    end loop;
    return last;
exception
    when query_canceled then
        perform msrepl.drain_link();
        raise;
    when others then
        perform msrepl.drain_link(was_cancelled => false);
        raise;
end
$msrepl$;
alter function msrepl.query_link(text) owner to {owner};
revoke all on function msrepl.query_link(text) from public;
comment on function msrepl.query_link(text) is 'Sends a message over the link and returns what its last statement answers';
