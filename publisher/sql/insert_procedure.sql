-- sp_mssync_ins_<table>: applies a Subscriber's INSERT if no unique key is taken.
-- called by: the INSERT trigger of a Subscriber, over its link
-- tables:    the published table; msrepl.branch_marker
-- holes:     procedure, parameters, signature, owner, table, article, columns, new_names, new_values, clashes,
--            key_match, new_version, before, after, comment
--
-- ON CONFLICT DO NOTHING waits for a row in doubt like any insert, needs no subtransaction, and lets
-- the count say that something clashed; what clashed is looked up only then. If nothing is found
-- (an exclusion constraint, an index on an expression) the rows are inserted plainly, for PostgreSQL's
-- own error.
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
    insert into {table} as t ({columns}) overriding system value
    select {new_values}
    from unnest($3) as r({new_names})
    on conflict do nothing;
    get diagnostics done = row_count;
    if done <> sent then
        select array_agg(distinct c.name) as names,
               (array_agg(c.key))[1] as key, (array_agg(c.sent))[1] as sent,
               (array_agg(c.held))[1] as held, (array_agg(c.image))[1] as image
        into bad
        from (
            {clashes}
        ) as c(name, key, sent, held, image)
        group by c.key
        order by cardinality(array_agg(distinct c.name)) desc
        limit 1;
        if bad.names is not null then
            perform msrepl.raise_conflict(
                case when cardinality(bad.names) > 1 then 'multiple_unique' else 'insert_exists' end,
                '23505', 20515, {article}, bad.key, bad.sent, bad.held, bad.image,
                format('a row of %s with the same key is at the Publisher already (%s)',
                       {article}, array_to_string(bad.names, ', ')),
                bad.names);
        end if;
        insert into {table} as t ({columns}) overriding system value
        select {new_values}
        from unnest($3) as r({new_names})
        where not exists (
            select from {table} as t where {key_match} and t.msrepl_tran_version = r.{new_version});
        get diagnostics again = row_count;
        if done + again <> sent then
            perform msrepl.raise_conflict(
                'row_missing', '40001', 20515, {article}, null, null, null, null,
                format('the Publisher stored %s of %s rows inserted into %s', done + again, sent, {article}));
        end if;
    end if;
    {after}
end
$msrepl$;
alter procedure {procedure}({signature}) owner to {owner};
revoke all on procedure {procedure}({signature}) from public;
comment on procedure {procedure}({signature}) is {comment};
