-- msrepl.prepare_publisher: obtains the Publisher's vote for a coordinator.
-- called by: the coordinator, in the same message as the local PREPARE TRANSACTION or COMMIT
-- tables:    msrepl.branch_marker
-- holes:     votes, begins, owner, own_branch, sites
--
-- calls is 0 on return if nothing was captured in this transaction; its own branch has a marker all the same, which
-- takes no calls: a change that guesses the marker's place after the vote would otherwise be made at the Publisher,
-- and not prepared.
--
-- proof: the coordinator's, so that it alone can ask. No function can ask either: it could read the proof in the
-- message by which it is called. A vote that the application could request might be rolled back here to a savepoint,
-- and would stay prepared at the Publisher.
-- participants: all branches, this Subscriber's at the Publisher first; given where there are several Subscribers
-- (any other default would be parsed for every transaction), and part of what is proven. A Subscriber's link is a
-- separate session at the Publisher, and has a separate branch; the marker of a transaction without such a branch
-- names only the others: it decides nothing for the missing one.
drop procedure if exists msrepl.prepare_publisher(text, integer, text[]);
create or replace procedure msrepl.prepare_publisher(
    gid text, inout calls integer, proof text, participants text[] default null)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    context text;
    sites constant text[] := coalesce($4, {sites});
begin
    get diagnostics context = pg_context;
    if strpos(context, E'\n') > 0 then
        raise exception 'prepare_publisher: only the coordinator calls it, and not from within a statement'
            using errcode = 'insufficient_privilege',
                  hint = 'Commit a global transaction by its coordinator, as topology.transaction(...) does.';
    end if;
{votes}    if not found then
        if $1 is null then
            raise exception 'prepare_publisher: the id of the global transaction is missing'
                using errcode = 'null_value_not_allowed';
        end if;
        raise exception 'prepare_publisher: only the coordinator of transaction % can ask for its votes', $1
            using errcode = 'insufficient_privilege',
                  hint = 'Commit a global transaction by its coordinator, as topology.transaction(...) does.';
    end if;
    $2 := msrepl.prepare_branch($1, sites, false);
    if $2 > 0 then
        return;
    end if;
{begins}    if not found or current_setting('msrepl.gid', true) is distinct from $1 then
        raise exception 'transaction % was ended by a statement, or its settings msrepl.* were changed', $1
            using errcode = 'invalid_transaction_state',
                  hint = 'Roll back and try again. COMMIT, ROLLBACK and RESET ALL have no place in a global transaction.';
    end if;
    perform msrepl.reset_link();
    if pg_current_xact_id_if_assigned() is not null then
        begin
            insert into msrepl.branch_marker (gid, xid, participants, prepared)
            values ($1 || {own_branch}, pg_current_xact_id(),
                    case when sites = {sites} then array[]::text[] else sites[2:] end, true);
        exception when unique_violation then
            raise exception 'this transaction was prepared at the Publisher already, or its settings msrepl.* were changed'
                using errcode = 'invalid_transaction_state',
                      detail = sqlerrm,
                      hint = 'Roll back and try again.';
        end;
    end if;
end
$msrepl$;
alter procedure msrepl.prepare_publisher(text, integer, text, text[]) owner to {owner};
revoke all on procedure msrepl.prepare_publisher(text, integer, text, text[]) from public;
comment on procedure msrepl.prepare_publisher(text, integer, text, text[]) is 'Prepares the branch at the Publisher, for a coordinator';
