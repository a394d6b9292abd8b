-- msrepl.delivery_witness: what agents have done at this Subscriber, one row for each row that they changed.
-- called by: the function of witness_function.sql writes it; twopc audit reads it
-- tables:    itself
-- holes:     none
--
-- operation  ins, upd, del; call; since: key is the position that had been delivered when the witness of the
--            table was installed, and for a routine also the snapshot, which tells the transactions that had
--            ended by then
-- key        of the row after the change, or of a deleted row, as text; of a call, which concerns no row,
--            md5 of its command
-- version    the row version, null if the table has none
create table if not exists msrepl.delivery_witness (
    id bigint generated always as identity primary key,
    xid xid8 not null default pg_current_xact_id(),
    source_schema text not null,
    source_object text not null,
    operation text not null,
    key text[] not null,
    version text,
    at timestamptz not null default clock_timestamp()
);
revoke all on msrepl.delivery_witness from public;
comment on table msrepl.delivery_witness is 'What agents have done here, noted for an audit';
