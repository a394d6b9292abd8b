-- msrepl.msrepl_blocks: transactions and their commands, many of them in one row.
-- called by: the log reader, which copies them in; agents; twopc.publisher.distribution (browse, clean_up, status)
-- tables:    itself
-- holes:     none
--
-- One row per transaction or command would cost more than everything else between the log and the Subscribers.
-- Arrays therefore stand for rows, and msrepl_transactions and msrepl_commands show them as rows. A block holds
-- whole transactions, or a part of one that is too large for one block; that transaction is listed in its last part.
--
-- first_seqno, last_seqno  commit LSNs of its first and last transaction
-- part                     number of the part of a transaction, from 0
-- transactions, commands   how many there are in its arrays
-- last_command             number of its last command within the last transaction
-- seqnos … lengths         of transactions, see msrepl_transactions; originator 0 is NULL there
-- command_seqnos … texts   of commands, see msrepl_commands; a code is the article's number * 100 + type
create table if not exists msrepl.msrepl_blocks (
    publisher_database_id integer not null,
    first_seqno pg_lsn not null,
    last_seqno pg_lsn not null,
    part integer not null,
    transactions integer not null,
    commands integer not null,
    last_command integer not null,
    -- compressing them would cost more than writing them uncompressed
    seqnos pg_lsn[] storage external not null,
    xids xid8[] storage external not null,
    entry_times timestamptz[] storage external not null,
    originators integer[] storage external not null,
    marks integer[] storage external not null,
    counts integer[] storage external not null,
    lengths bigint[] storage external not null,
    command_seqnos pg_lsn[] storage external not null,
    command_ids integer[] storage external not null,
    codes integer[] storage external not null,
    command_originators integer[] storage external not null,
    hashkeys integer[] storage external not null,
    texts text[] storage external not null,
    primary key (publisher_database_id, last_seqno, part)
);
comment on table msrepl.msrepl_blocks is 'Transactions to distribute and their commands, in blocks';
