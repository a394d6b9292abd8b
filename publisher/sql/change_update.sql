-- mssync_change_upd_<table>: applies a Subscriber's UPDATE if no row has changed since the Subscriber received it.
-- called by: sp_mssync_upd_<table>
-- tables:    the published table
-- holes:     function, signature, rows, runs_as, before, opened, closed, table, assignments, old_names,
--            new_names, key_match, old_version, tables, clashes, article, only_key, denied, key_json,
--            held_version, row_json, held, inside, held_match, new_key_match, new_version, after, salt,
--            owner, caller, comment
--
-- Old and new rows are paired by position. The first UPDATE does not wait for a branch that is committed at the
-- Subscriber but still prepared here: the row in its snapshot fails the condition on the row version before any
-- lock is requested. On a mismatch, the rows are therefore locked by key, which does wait, and the UPDATE is
-- retried once. Rows that such a branch has inserted cannot be locked at all; then the branch itself is waited
-- for (msrepl.await_branches). Parameters have no names, for the reason given in mssync_change_ins_<table>.
create or replace function {function}({signature}) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    {rows}
    sent integer;
    kept integer := 0;
    again integer;
    done integer;
    waited boolean := false;
    violated text;
    detail text;
    bad record;
begin
{runs_as}    old_rows := $1;
    new_rows := $2;
    sent := cardinality(old_rows);
    {before}
    loop
        begin
            {opened}update {table} as t
            set {assignments}
            from rows from (pg_catalog.unnest(sync.old_rows), pg_catalog.unnest(sync.new_rows)) as r({old_names}, {new_names})
            where {key_match} and t.msrepl_tran_version operator(pg_catalog.=) r.{old_version};
            get diagnostics again = row_count;{closed}
            done := kept + again;
            exit when done = sent;
            perform 1
            from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r({old_names}, {new_names})
            join {table} as t on {key_match}
            for update of t;
            {opened}update {table} as t
            set {assignments}
            from rows from (pg_catalog.unnest(sync.old_rows), pg_catalog.unnest(sync.new_rows)) as r({old_names}, {new_names})
            where {key_match} and t.msrepl_tran_version operator(pg_catalog.=) r.{old_version};
            get diagnostics again = row_count;{closed}
            done := done + again;
            exit when done = sent or waited;
            perform msrepl.await_branches({tables});
            waited := true;
            kept := done;
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
                    case when cardinality(bad.names) > 1 then 'multiple_unique' else 'update_exists' end,
                    '23505', 20515, {article}, coalesce(bad.key, {only_key}), bad.sent, bad.held, bad.image,
                    format('the UPDATE gives a row of %s a key that is taken at the Publisher (%s)',
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
        select {key_json} as key, r.{old_version}::text as sent_version,
               t.{held_version}::text as held_version, {row_json} as image
        into bad
        from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r({old_names}, {new_names})
        left join {held} on t.{inside} and {held_match}
        where not exists (
            select from {table} as u
            where {new_key_match} and u.msrepl_tran_version in (
                r.{new_version}, md5(r.{new_version}::text || {salt})::uuid))
        limit 1;
        if bad.sent_version = bad.held_version then
            perform msrepl.raise_conflict(
                'suppressed', '09000', 20515, {article}, bad.key, bad.sent_version, bad.held_version, bad.image,
                format('a trigger of the Publisher kept %s of %s rows of %s from being updated',
                       sent - done, sent, {article}));
        end if;
        perform msrepl.raise_conflict(
            case when bad.held_version is null then 'row_missing' else 'version_mismatch' end,
            '40001', 20515, {article}, bad.key, bad.sent_version, bad.held_version, bad.image,
            format('rows of %s do not match between Publisher and Subscriber: %s of %s rows of the UPDATE were refused',
                   {article}, sent - done, sent));
    end if;
    {after}
end
$msrepl$;
alter function {function}({signature}) owner to {owner};
revoke all on function {function}({signature}) from public;
grant execute on function {function}({signature}) to {caller};
comment on function {function}({signature}) is {comment};
