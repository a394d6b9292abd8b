-- msrepl.msarticles: the articles of each Publisher database, as their commands are made and read.
-- called by: publisher.distribution
-- tables:    itself
-- holes:     none
--
-- columns      array of name, type, oid …: the columns that travel, in the order of a command's values
-- key          names of the key's columns, in the key's order
-- left_out     columns of the table that the log holds and that are not published
-- generated    generated columns of the table, which the log may hold and which do not travel
-- propagation  formats and custom procedures by operation (twopc.propagation.Propagation.as_json)
-- procedures   names of the default procedures at the Subscribers, by operation: ins, upd, del
create table if not exists msrepl.msarticles (
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    article_id integer not null check (article_id > 0),
    source_schema text not null,
    source_object text not null,
    columns jsonb not null,
    key text[] not null,
    left_out text[] not null default array[]::text[],
    generated text[] not null default array[]::text[],
    filter_clause text,
    propagation jsonb not null,
    procedures jsonb not null,
    primary key (publisher_database_id, article_id)
);
comment on table msrepl.msarticles is 'Articles, as their commands are made and read';
