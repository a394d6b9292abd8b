-- msrepl.net_<article>: makes updates that block each other in one statement: unique values are freed first.
-- called by: msrepl.apply_net
-- tables:    the subscribed table; msrepl.msreplication_procedures
-- holes:     function, article_id, table, table_text, call_type, match, columns, values, computed, runs_as, path_stays, owner, agent,
--            comment
--
-- The rows are deleted and inserted again in one statement, with the values that only this Subscriber has, so that at
-- its end nothing refers to a missing row. -1: this is not allowed, because a referential action would follow the
-- delete, or because the default procedure was replaced.
create function {function}(commands text[]) returns bigint
language plpgsql security definer
as $msrepl$
#variable_conflict use_variable
declare
    path constant text := pg_catalog.current_setting('search_path');
    rows {call_type}[];
    done bigint;
begin
{runs_as}    if not msrepl.is_default_procedure({article_id}, 'upd') or exists (
        select from pg_catalog.pg_trigger as k
        join pg_catalog.pg_constraint as r on r.oid = k.tgconstraint
        where k.tgrelid = {table_text}::regclass and k.tgenabled in ('A', 'R') and r.contype = 'f'
          and r.confrelid = k.tgrelid and r.confdeltype in ('c', 'n', 'd')
    ) then
        return -1;
    end if;
    rows := commands::{call_type}[];
    with gone as (
        delete from {table} as t using unnest(rows) as c where {match} returning t as held, c as call
    ), everything as (
        select array_agg(held) as held, array_agg(call) as calls from gone
    ), pairs as (
        select held[place] as t, calls[place] as c
        from everything, generate_subscripts(held, 1) as place
    )
    insert into {table} ({columns}) overriding system value
    select {values} from pairs;
    get diagnostics done = row_count;
    if done <> cardinality(rows) then
        return -1;
    end if;{computed}
{path_stays}    return done;
end
$msrepl$;
alter function {function}(text[]) owner to {owner};
revoke all on function {function}(text[]) from public;
grant execute on function {function}(text[]) to {agent};
comment on function {function}(text[]) is {comment};
