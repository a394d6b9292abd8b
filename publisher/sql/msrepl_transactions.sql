-- msrepl.msrepl_transactions: the transactions to distribute, in the order of their commits.
-- called by: the log reader, which copies them in; agents; publisher.distribution (browse, clean_up)
-- tables:    itself
-- holes:     none
--
-- xact_seqno     commit LSN: their order
-- xact_id        transaction id at the Publisher
-- entry_time     when it was committed there
-- originator_id  the Subscriber that it came from; NULL: the Publisher itself
-- marks          how many different originators had marked it (the last one counts)
-- commands       how many commands it has
-- bytes          how long their texts are together: what an agent must hold of it at once
create table if not exists msrepl.msrepl_transactions (
    publisher_database_id integer not null,
    xact_seqno pg_lsn not null,
    xact_id xid8 not null,
    entry_time timestamptz not null,
    originator_id integer,
    marks integer not null default 0,
    commands integer not null,
    bytes bigint not null default 0,
    primary key (publisher_database_id, xact_seqno)
);
comment on table msrepl.msrepl_transactions is 'Transactions to distribute, in the order of their commits';
