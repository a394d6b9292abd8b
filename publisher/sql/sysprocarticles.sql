-- msrepl.sysprocarticles: the published routines of this database.
-- called by: twopc.publisher.proc_execution, open_bracket, proc_ddl_guard
-- tables:    itself
-- holes:     owner
--
-- Numbers come from the same sequence as those of sysarticles. definition is the user's; wrapper_source is
-- the body of the wrapper in its place, NULL if there is none. reads and writes are names of articles; NULL:
-- not declared. called: a Subscriber receives the calls. working: our own DDL is in progress.
set local role {owner};
create table if not exists msrepl.sysprocarticles (
    article_id integer primary key default nextval(pg_get_serial_sequence('msrepl.sysarticles', 'article_id'))
        check (article_id < 10000000),
    objid oid not null unique,
    schema text not null,
    name text not null,
    kind "char" not null,
    arguments jsonb not null,
    returns_set boolean not null,
    type text not null check (type in ('serializable proc exec', 'proc exec', 'proc schema only')),
    reads text[],
    writes text[],
    xact_abort boolean not null,
    commits boolean not null,
    replicate_ddl boolean not null,
    definition text not null,
    wrapper_source text,
    called boolean not null default false,
    obstacle text,
    warnings jsonb not null default '[]',
    working boolean not null default false
);
revoke all on msrepl.sysprocarticles from public;
comment on table msrepl.sysprocarticles is 'Routines of this database that are published';
reset role;
