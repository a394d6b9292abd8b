-- msrepl.apply_<article>_call, while it is witnessed: notes the call, then makes it as before.
-- called by: the distribution agent
-- tables:    none
-- holes:     function, taker, witnessed, owner, agent, comment
--
-- The rights are the agent's, and no search_path is set, as in the function that was here before.
create function {function}(command text) returns void
language plpgsql
as $msrepl$
begin
    perform msrepl.delivery_witness_note({taker}, command);
    perform pg_catalog.set_config('msrepl.witnessed_call', 'on', true);
    perform {witnessed}(command);
    perform pg_catalog.set_config('msrepl.witnessed_call', '', true);
end
$msrepl$;
alter function {function}(text) owner to {owner};
revoke all on function {function}(text) from public;
grant execute on function {function}(text) to {agent};
grant execute on function msrepl.delivery_witness_note(text, text) to {agent};
comment on function {function}(text) is {comment};
