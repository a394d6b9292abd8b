-- msrepl_call.close_bracket: marks where a call of a published routine ends.
-- called by: msrepl_call.run_<n>, by assignment, like open_bracket
-- tables:    msrepl.call_marker
-- holes:     owner
--
-- opened   the result of open_bracket
-- failure  SQLSTATE of the error that ended the call; NULL: none
create or replace function msrepl_call.close_bracket(article integer, opened bigint, failure text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lc_messages = 'C'
as $msrepl$
declare
    stack text;
    caller text;
begin
    get diagnostics stack = pg_context;
    caller := split_part(stack, E'\n', 2);
    if opened is null
        or starts_with(caller, 'PL/pgSQL function msrepl_call.run_' || article || '(') is not true
        and starts_with(caller, 'PL/pgSQL function "msrepl_call"."run_' || article || '"(') is not true
    then
        raise exception 'only msrepl_call.run_% closes a bracket', article
            using errcode = 'insufficient_privilege',
                  hint = 'Call the published routine itself, in a session whose search_path never had msrepl_call.';
    end if;
    insert into msrepl.call_marker (article_id, opened, failure) values (article, opened, failure);
end
$msrepl$;
alter function msrepl_call.close_bracket(integer, bigint, text) owner to {owner};
revoke all on function msrepl_call.close_bracket(integer, bigint, text) from public;
grant execute on function msrepl_call.close_bracket(integer, bigint, text) to public;
comment on function msrepl_call.close_bracket(integer, bigint, text) is 'Marks where a call of a published routine ends';
