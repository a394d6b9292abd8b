-- mssync_change_del_<table>: applies a Subscriber's DELETE if no published value has changed.
-- called by: sp_mssync_del_<table>
-- tables:    the published table
-- holes:     function, signature, rows, runs_as, before, opened, closed, table, old_names, key_match,
--            same, tables, denied, article, only_key, key_json, old_version, held_version, row_json, held,
--            inside, held_match, owner, caller, comment
--
-- "A WHERE clause that qualifies the current row with values from the deleted table" (seed 002). On a
-- mismatch, the rows are locked by key and the DELETE is retried once, as in mssync_change_upd_<table>.
-- Parameters have no names, for the reason given in mssync_change_ins_<table>.
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
    sent := cardinality(old_rows);
    {before}
    loop
        begin
            {opened}delete from {table} as t
            using pg_catalog.unnest(sync.old_rows) as r({old_names})
            where {key_match} and {same};
            get diagnostics again = row_count;{closed}
            done := kept + again;
            if done <> sent then
                perform 1
                from unnest(sync.old_rows) as r({old_names})
                join {table} as t on {key_match}
                for update of t;
                {opened}delete from {table} as t
                using pg_catalog.unnest(sync.old_rows) as r({old_names})
                where {key_match} and {same};
                get diagnostics again = row_count;{closed}
                done := done + again;
            end if;
            exit when done = sent or waited;
            perform msrepl.await_branches({tables});
            waited := true;
            kept := done;
        exception
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
        -- a row that still exists is stale; if none does and several rows were sent, the missing row
        -- cannot be distinguished from those that this call deleted
        select {key_json} as key, r.{old_version}::text as sent_version,
               t.{held_version}::text as held_version, {row_json} as image
        into bad
        from unnest(sync.old_rows) as r({old_names})
        left join {held} on t.{inside} and {held_match}
        where t.{held_version} is not null or sync.sent = 1
        limit 1;
        if exists (
            select from unnest(sync.old_rows) as r({old_names}) join {table} as t on {key_match} and {same}
        ) then
            perform msrepl.raise_conflict(
                'suppressed', '09000', 20515, {article}, bad.key, bad.sent_version, bad.held_version, bad.image,
                format('a trigger of the Publisher kept %s of %s rows of %s from being deleted',
                       sent - done, sent, {article}));
        end if;
        perform msrepl.raise_conflict(
            case when bad.held_version is null then 'row_missing' else 'delete_stale' end,
            '40001', 20515, {article}, bad.key, bad.sent_version, bad.held_version, bad.image,
            format('rows of %s do not match between Publisher and Subscriber: %s of %s rows of the DELETE were refused',
                   {article}, sent - done, sent));
    end if;
end
$msrepl$;
alter function {function}({signature}) owner to {owner};
revoke all on function {function}({signature}) from public;
grant execute on function {function}({signature}) to {caller};
comment on function {function}({signature}) is {comment};
