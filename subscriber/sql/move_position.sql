-- msrepl.move_position: moves an agent's position, in the transaction that delivers.
-- called by: the distribution agent, first in each of its transactions
-- tables:    msrepl.msreplication_subscriptions
-- holes:     owner, agent
--
-- If the position is not the expected one, another agent has delivered here in the meantime, and nothing
-- of this transaction may stay. The lock of the row keeps other agents out until the transaction ends.
create or replace function msrepl.move_position(from_publisher text, was pg_lsn, becomes pg_lsn) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    update msrepl.msreplication_subscriptions as s
    set transaction_timestamp = becomes, "time" = pg_catalog.clock_timestamp()
    where s.publisher = from_publisher and s.stream = 0 and s.transaction_timestamp = was;
    if not found then
        raise exception 'the position of what % distributes is not % any more', from_publisher, was
            using errcode = 'serialization_failure',
                  hint = 'Another agent has delivered here, or the subscription was initialised again.';
    end if;
end
$msrepl$;
alter function msrepl.move_position(text, pg_lsn, pg_lsn) owner to {owner};
revoke all on function msrepl.move_position(text, pg_lsn, pg_lsn) from public;
grant execute on function msrepl.move_position(text, pg_lsn, pg_lsn) to {agent};
comment on function msrepl.move_position(text, pg_lsn, pg_lsn)
    is 'Moves the position of an agent, unless it was moved by somebody else';
