-- msrepl.msreplication_proc_articles: the routines that came with the subscription, or that it has taken over.
-- called by: twopc.subscriber.proc_execution
-- tables:    itself
-- holes:     owner
--
-- identity       the routine as regprocedure reads it: schema, name and types
-- takes_calls    agents call it here; else they bring its definitions alone
-- digest         of its text as an agent or a copy has brought it last
-- before         definition and owner of the routine that stood in its place; unsubscribing puts it back
-- before_owner
create table if not exists msrepl.msreplication_proc_articles (
    article_id integer primary key,
    dest_schema text not null,
    name text not null,
    kind text not null check (kind in ('p', 'f')),
    identity text not null unique,
    takes_calls boolean not null,
    digest text,
    before text,
    before_owner text,
    agent text not null
);
comment on table msrepl.msreplication_proc_articles is 'Routines that came with the subscription, or that it has taken over';
alter table msrepl.msreplication_proc_articles owner to {owner};
revoke all on msrepl.msreplication_proc_articles from public;
