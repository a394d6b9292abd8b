-- msrepl.apply_<article>_call, while it is witnessed: notes the call, then makes it as before.
-- called by: the distribution agent
-- tables:    none
-- holes:     function, taker, witnessed, owner, agent, comment
--
-- The rights are the agent's, and no search_path is set, as in the function that was here before.
create function "msrepl"."apply_3_call"(command text) returns void
language plpgsql
as $msrepl$
begin
    perform msrepl.delivery_witness_note('apply_3_call', command);
    perform pg_catalog.set_config('msrepl.witnessed_call', 'on', true);
    perform "msrepl"."apply_3_call_witnessed"(command);
    perform pg_catalog.set_config('msrepl.witnessed_call', '', true);
end
$msrepl$;
alter function "msrepl"."apply_3_call"(text) owner to "own";
revoke all on function "msrepl"."apply_3_call"(text) from public;
grant execute on function "msrepl"."apply_3_call"(text) to "agent";
grant execute on function msrepl.delivery_witness_note(text, text) to "agent";
comment on function "msrepl"."apply_3_call"(text) is 'Notes a call for an audit, then makes it';
