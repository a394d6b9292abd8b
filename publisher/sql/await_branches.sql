-- msrepl.await_branches: waits until the branches of the same Subscriber that are prepared here have ended.
-- called by: sync procedures and defer_keys, when something is missing
-- tables:    msrepl.branch_marker; pg_prepared_xacts, pg_locks
-- holes:     owner
--
-- Such a branch may already be committed at the Subscriber, where the next transaction depends on it: on rows
-- that are invisible here until the branch is finished, and that no lock can wait for. Each branch has inserted
-- its marker, so inserting the same marker waits for the branch; that insert is always rolled back. Callers
-- retry once even if there was no branch to wait for, since one may have ended after their last attempt.
create or replace function msrepl.await_branches(tables oid[]) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    branch text;
begin
    for branch in
        select p.gid
        from pg_prepared_xacts as p
        where p.owner = session_user and p.database = current_database()
          and exists (
              -- a prepared transaction keeps the virtual id of its session, and gets another one at a restart
              select from pg_locks as x
              join pg_locks as l on l.virtualtransaction = x.virtualtransaction and l.pid is null
              where x.locktype = 'transactionid' and x.transactionid = p.transaction and x.pid is null
                and l.locktype = 'relation' and l.relation = any (tables) and l.mode = 'RowExclusiveLock')
        order by p.prepared
    loop
        begin
            insert into msrepl.branch_marker (gid, xid, participants)
            values (branch, pg_current_xact_id(), array[]::text[]);
            raise unique_violation;
        exception
            when unique_violation then
                null;
            when lock_not_available then
                perform msrepl.raise_conflict(
                    'lock_timeout', '55P03', 0, null, null, null, null, null,
                    format('what this change builds on may be in branch %s, which was not finished within %s',
                           branch, current_setting('lock_timeout')));
        end;
    end loop;
end
$msrepl$;
alter function msrepl.await_branches(oid[]) owner to {owner};
revoke all on function msrepl.await_branches(oid[]) from public;
comment on function msrepl.await_branches(oid[]) is 'Waits for prepared branches of the same Subscriber';
