-- mssync_change_ins_<table>: applies a Subscriber's INSERT if no unique key is taken.
-- called by: sp_mssync_ins_<table>
-- tables:    the published table
-- holes:     function, signature, rows, runs_as, before, opened, closed, table, columns, new_values,
--            new_names, clashes, article, only_key, denied, tables, after, owner, caller, comment
--
-- A plain INSERT, which waits for a row in doubt and, unlike ON CONFLICT, supports deferrable constraints. The
-- rows with which it clashed are looked up only after it failed. Parameters have no names: PL/pgSQL can be set to
-- refuse variables that shadow them.
create or replace function {function}({signature}) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    {rows}
    sent integer;
    done integer;
    waited boolean := false;
    violated text;
    detail text;
    bad record;
begin
{runs_as}    new_rows := $1;
    sent := cardinality(new_rows);
    {before}
    loop
        begin
            {opened}insert into {table} as t ({columns}) overriding system value
            select {new_values}
            from pg_catalog.unnest(sync.new_rows) as r({new_names});
            get diagnostics done = row_count;{closed}
            exit;
        exception
            when unique_violation or exclusion_violation then
                get stacked diagnostics violated = constraint_name;
                select array_agg(distinct c.name) as names,
                       (array_agg(c.key))[1] as key, (array_agg(c.sent))[1] as sent,
                       (array_agg(c.held))[1] as held, (array_agg(c.image))[1] as image
                into bad
                from (
                    {clashes}
                ) as c(name, key, sent, held, image)
                group by c.key
                order by count(distinct c.name) desc
                limit 1;
                perform msrepl.raise_conflict(
                    case when cardinality(bad.names) > 1 then 'multiple_unique' else 'insert_exists' end,
                    '23505', 20515, {article}, coalesce(bad.key, {only_key}), bad.sent, bad.held, bad.image,
                    format('a row of %s with the same key is at the Publisher already (%s)',
                           {article}, array_to_string(coalesce(bad.names, array[violated]), ', ')),
                    coalesce(bad.names, array[violated]));
{denied}            when foreign_key_violation then
                get stacked diagnostics violated = constraint_name, detail = pg_exception_detail;
                if waited then
                    perform msrepl.raise_conflict(
                        'fk_violation', '23503', 20515, {article}, {only_key}, null, null, null,
                        sqlerrm || coalesce(' (' || detail || ')', ''), array[violated]);
                end if;
                perform msrepl.await_branches({tables});
                waited := true;
        end;
    end loop;
    if done <> sent then
        perform msrepl.raise_conflict(
            'suppressed', '09000', 20515, {article}, {only_key}, null, null, null,
            format('a trigger of the Publisher kept %s of %s rows from being inserted into %s',
                   sent - done, sent, {article}));
    end if;
    {after}
end
$msrepl$;
alter function {function}({signature}) owner to {owner};
revoke all on function {function}({signature}) from public;
grant execute on function {function}({signature}) to {caller};
comment on function {function}({signature}) is {comment};
