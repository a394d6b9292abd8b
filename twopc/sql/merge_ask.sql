-- msmerge_ask_<artid>: passes a conflict to the SQL resolver of an article.
-- called by: merge agents at the Publisher, once the rows of the conflict are locked
-- tables:    none
-- holes:     function, call, owner, comment
--
-- An error of the resolver is also an answer, unless it concerns the transaction as a whole. The resolver may
-- have set a search path: nothing here is looked up by it.
create or replace function {function}(conflict jsonb) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    answer jsonb;
begin
    answer := {call}(conflict);
    return pg_catalog.jsonb_build_object('answer', answer);
exception
    when transaction_rollback or lock_not_available or insufficient_resources or operator_intervention then
        raise;
    when others or assert_failure then
        return pg_catalog.jsonb_build_object('error', pg_catalog.format('%s (%s)', sqlerrm, sqlstate));
end
$msrepl$;
alter function {function}(jsonb) owner to {owner};
revoke all on function {function}(jsonb) from public;
comment on function {function}(jsonb) is {comment};
