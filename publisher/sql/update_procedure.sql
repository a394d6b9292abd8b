-- sp_mssync_upd_<table>: applies a Subscriber's UPDATE if no row changed since it was received.
-- called by: the UPDATE trigger of a Subscriber, over its link
-- tables:    the published table; msrepl.branch_marker
-- holes:     procedure, parameters, signature, owner, table, article, old_names, new_names, assignments,
--            key_match, new_key_match, old_version, new_version, key_json, row_json, alias, partition,
--            before, after, comment
--
-- The old and the new rows pair by position. Behind a branch that is committed at the Subscriber but still
-- prepared here the first UPDATE does not wait: the version in its snapshot is filtered out before any
-- lock is met. So a mismatch locks the rows by key, which does wait, and tries once more.
create or replace procedure {procedure}({parameters})
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    sent constant integer := cardinality($3);
    done integer;
    again integer;
    bad record;
begin
    if $1 is not null then
        insert into msrepl.branch_marker (gid, xid, participants, originator)
        values ($1, pg_current_xact_id(), $2, session_user);
    end if;
    {before}
    update {table} as t
    set {assignments}
    from rows from (unnest($3), unnest($4)) as r({old_names}, {new_names})
    where {key_match} and t.msrepl_tran_version = r.{old_version};
    get diagnostics done = row_count;
    if done <> sent then
        perform 1
        from rows from (unnest($3), unnest($4)) as r({old_names}, {new_names})
        join {table} as t on {key_match}
        for update of t;
        update {table} as t
        set {assignments}
        from rows from (unnest($3), unnest($4)) as r({old_names}, {new_names})
        where {key_match} and t.msrepl_tran_version = r.{old_version};
        get diagnostics again = row_count;
        if done + again <> sent then
            select case when t.msrepl_tran_version is null then 'row_missing' else 'version_mismatch' end as kind,
                   {key_json} as key, r.{old_version}::text as sent_version,
                   t.msrepl_tran_version::text as held_version, {row_json} as held
            into bad
            from rows from (unnest($3), unnest($4)) as r({old_names}, {new_names})
            left join (select * from {table} as {alias} where {partition}) as t on {key_match}
            where not exists (
                select from {table} as u
                where {new_key_match} and u.msrepl_tran_version = r.{new_version})
            limit 1;
            perform msrepl.raise_conflict(
                coalesce(bad.kind, 'version_mismatch'), '40001', 20515, {article}, bad.key,
                bad.sent_version, bad.held_version, bad.held,
                format('rows of %s do not match between Publisher and Subscriber: %s of %s rows of the UPDATE were refused',
                       {article}, sent - done - again, sent));
        end if;
    end if;
    {after}
end
$msrepl$;
alter procedure {procedure}({signature}) owner to {owner};
revoke all on procedure {procedure}({signature}) from public;
comment on procedure {procedure}({signature}) is {comment};
