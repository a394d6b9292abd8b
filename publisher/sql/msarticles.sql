-- msrepl.msarticles: the articles of each Publisher database, with what making and reading their commands requires.
-- called by: twopc.publisher.distribution
-- tables:    itself
-- holes:     none
--
-- columns      array of name, type, oid …: the columns that travel, in the order of a command's values
-- key          names of the key's columns, in the key's order
-- left_out     columns of the table that are in the log but not published
-- generated    generated columns of the table, which may be in the log but do not travel
-- propagation  formats and custom procedures by operation (twopc.propagation.Propagation.as_json)
-- procedures   names of the default procedures at the Subscribers, by operation: ins, upd, del
-- kind         table; proc: a routine whose calls are stored, and under a second number (10,000,000
--              higher) its definitions
-- proc         of a routine: twopc.proc_execution.ProcArticle.as_json, without its definition
-- calls        of a routine: its calls are stored, not only the rows that they change
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
    kind text not null default 'table' check (kind in ('table', 'proc')),
    proc jsonb,
    calls boolean not null default false,
    primary key (publisher_database_id, article_id)
);
do $msrepl$
begin
    -- a table of an earlier version; the lock is taken only in this case
    if not exists (select from pg_attribute
                   where attrelid = 'msrepl.msarticles'::regclass and attname = 'kind') then
        alter table msrepl.msarticles
            add column kind text not null default 'table' check (kind in ('table', 'proc')),
            add column proc jsonb, add column calls boolean not null default false;
    end if;
end
$msrepl$;
comment on table msrepl.msarticles is 'Articles, as their commands are made and read';
