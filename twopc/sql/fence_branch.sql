-- msrepl.fence_branch: returns how a branch ended, and ensures that it can end in no other way.
-- called by: the coordinator and recovery, when an answer was lost
-- tables:    msrepl.branch_marker
-- holes:     owner
--
-- A branch that commits leaves its marker row. This function inserts the same gid: it waits for a branch that is
-- in progress, and a later one fails with 23505. "There is no such prepared transaction" (42704), which has five
-- different meanings, thus becomes one of these:
--
-- prepared   it is prepared now, by a role of which the caller is a member: finish it. Any role may prepare
--            under any name; a transaction that another role has prepared leaves no marker, and is ignored
-- committed  its marker exists
-- fenced     it did not commit and never can
-- 55P03 (lock_not_available) is raised if it is still in progress after a second: ask again
--
-- It waits in short turns, because waiting for a branch that becomes prepared in the meantime would not end.
--
-- The row found is locked, so that this transaction has something to commit: if a synchronous standby is named,
-- the answer then comes only once the standby has that row.
create or replace function msrepl.fence_branch(gid text, participants text[]) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms'
as $msrepl$
#variable_conflict use_column
declare
    is_fence boolean;
begin
    for turn in 1 .. 20 loop
        if exists (
            select from pg_prepared_xacts as p
            where p.gid = $1 and p.database = current_database() and pg_has_role(session_user, p.owner, 'member')
        ) then
            return 'prepared';
        end if;
        begin
            insert into msrepl.branch_marker as m (gid, xid, participants, fence)
            values ($1, pg_current_xact_id(), $2, true)
            on conflict (gid) do nothing;
            if found then
                return 'fenced';
            end if;
            exit;
        exception when lock_not_available then
            if turn = 20 then
                raise;
            end if;
        end;
    end loop;
    select m.fence into strict is_fence from msrepl.branch_marker as m where m.gid = $1 for share;
    return case when is_fence then 'fenced' else 'committed' end;
end
$msrepl$;
alter function msrepl.fence_branch(text, text[]) owner to {owner};
revoke all on function msrepl.fence_branch(text, text[]) from public;
comment on function msrepl.fence_branch(text, text[]) is 'How a branch ended; it can end in no other way afterwards';
