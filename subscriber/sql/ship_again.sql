-- msrepl.ship_again: repeats or explains a message that failed.
-- called by: capture triggers, flush
-- tables:    none
-- holes:     owner, link
--
-- The first message of a transaction may be repeated once over a new connection, because nothing of this
-- transaction can have been lost at the Publisher yet; a later one never. Returns true if the repetition
-- succeeded, false if the caller is to raise its own error.
create or replace function msrepl.ship_again(
    state text, message text, detail text, first boolean, command text, context text default null,
    hint text default null
) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if not first or not msrepl.link_is_lost(state) then
        perform msrepl.explain_failure(state, message, detail, context, command, hint);
        return false;
    end if;
    perform msrepl.open_link();
    begin
        perform msrepl_link.dblink_exec({link}, command);
        return true;
    exception
        when query_canceled then
            perform msrepl.drain_link();
            raise;
        when others then
            get stacked diagnostics detail = pg_exception_detail, context = pg_exception_context, hint = pg_exception_hint;
            perform msrepl.explain_failure(sqlstate, sqlerrm, detail, context, command, hint);
            raise;
    end;
end
$msrepl$;
alter function msrepl.ship_again(text, text, text, boolean, text, text, text) owner to {owner};
revoke all on function msrepl.ship_again(text, text, text, boolean, text, text, text) from public;
comment on function msrepl.ship_again(text, text, text, boolean, text, text, text) is 'Repeats the first message of a transaction, or says what its failure means';
