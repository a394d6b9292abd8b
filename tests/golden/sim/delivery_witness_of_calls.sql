-- msrepl.apply_<article>_call, while it is witnessed: records the call, then makes it as before.
-- called by: the distribution agent
-- tables:    none
-- holes:     function, taker, witnessed, agents, comment
--
-- The rights are the agent's, and no search_path is set: the function that was here before has the caller's.
-- It belongs to the role that audits: the role of calls could alter what runs with the agent's rights.
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
revoke all on function "msrepl"."apply_3_call"(text) from public;
grant execute on function "msrepl"."apply_3_call"(text) to "agent", "another";
grant execute on function msrepl.delivery_witness_note(text, text) to "agent", "another";
comment on function "msrepl"."apply_3_call"(text) is 'Notes a call for an audit, then makes it';
