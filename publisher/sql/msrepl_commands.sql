-- msrepl.msrepl_commands: what each transaction does, a command per article and row.
-- called by: the log reader, which copies them in; agents; publisher.distribution (browse, clean_up)
-- tables:    itself
-- holes:     none
--
-- command_id  counts from 1 in its transaction
-- article_id  0: for every Subscriber
-- type        twopc.propagation.CommandType
-- hashkey     by which commands are spread over streams: 0 the first stream only, else by the (old) key
-- command     a call's parameters as text of a row, a statement, or JSON
create table if not exists msrepl.msrepl_commands (
    publisher_database_id integer not null,
    xact_seqno pg_lsn not null,
    command_id integer not null,
    article_id integer not null,
    type integer not null,
    originator_id integer,
    hashkey integer not null default 0 check (hashkey between 0 and 63),
    command text not null,
    primary key (publisher_database_id, xact_seqno, command_id)
);
comment on table msrepl.msrepl_commands is 'What each transaction does, a command per article and row';
