-- msrepl.msreplication_proc_articles: the routines that the subscription has created or taken over.
-- called by: twopc.subscriber.proc_execution
-- tables:    itself
-- holes:     owner
--
-- identity       the routine as regprocedure reads it: schema, name and types
-- takes_calls    agents call it here; otherwise they only apply its definitions
-- digest         of its text as last set by an agent or an initial copy
-- before         definition and owner of the routine that was in its place; unsubscribing restores it
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
