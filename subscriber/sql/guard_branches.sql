-- trg_mssync_guard_branches: calls refuse_unprepared at the end of a transaction that has sent something.
-- called by: PostgreSQL, at PREPARE TRANSACTION or COMMIT
-- tables:    msrepl.branch_marker
-- holes:     owner
--
-- The function itself ignores transactions that have sent nothing: a WHEN clause would be parsed for every
-- transaction. ENABLE ALWAYS: the trigger also fires if a session switches to the replica role after its changes,
-- and for a turn that the guard has deferred. It is created once: CREATE TRIGGER would wait for every transaction
-- with a branch here whenever a topology is opened again.
do $msrepl$
begin
    if not exists (
        select from pg_catalog.pg_trigger as t
        where t.tgrelid = 'msrepl.branch_marker'::pg_catalog.regclass
          and t.tgname = 'trg_mssync_guard_branches' and t.tgenabled = 'A'
    ) then
        set local role {owner};
        drop trigger if exists trg_mssync_guard_branches on msrepl.branch_marker;
        create constraint trigger trg_mssync_guard_branches
            after insert or update of turn on msrepl.branch_marker deferrable initially deferred
            for each row execute function msrepl.refuse_unprepared();
        alter table msrepl.branch_marker enable always trigger trg_mssync_guard_branches;
        comment on trigger trg_mssync_guard_branches on msrepl.branch_marker is 'No commit without the Publisher''s branch';
        reset role;
    end if;
end
$msrepl$;
