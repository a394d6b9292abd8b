-- The role that owns our objects at a Subscriber, and their schema.
-- called by: twopc.subscriber.subscription, the script of a subscription
-- tables:    none
-- holes:     owner, owner_text, schema
do $msrepl$
begin
    if not exists (select from pg_roles where rolname = 'msrepl_owner_0123456789ab') then
        create role "msrepl_owner_0123456789ab" nologin;
    end if;
    if to_regclass('msrepl.sysmergearticles') is not null then
        raise exception 'database "%" merges tables: it cannot subscribe in another way as well (21266)', current_database()
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Let another database subscribe.';
    end if;
    if to_regclass('msrepl.sysarticles') is not null then
        raise exception 'database "%" publishes tables itself: it cannot subscribe as well', current_database()
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Let another database subscribe.';
    end if;
end
$msrepl$;
create schema if not exists "msrepl";
grant all on schema "msrepl" to "msrepl_owner_0123456789ab";

-- The role that makes calls of published routines here: whatever a routine uses is evaluated in its name.
-- called by: twopc.subscriber.propagation
-- tables:    none
-- holes:     role, role_text
--
-- It is a member of the roles of all subscribed tables, since any of them may be written by a routine; it has
-- no other rights.
do $msrepl$
begin
    if not exists (select from pg_roles where rolname = 'msrepl_table_c268110370c2_calls') then
        create role "msrepl_table_c268110370c2_calls" nologin;
        comment on role "msrepl_table_c268110370c2_calls" is 'Makes calls of published routines for replication';
    end if;
end
$msrepl$;

-- msrepl.msreplication_subscriptions, msrepl.msreplication_procedures: the positions of agents, and what
-- they call here.
-- called by: twopc.subscriber.propagation; distribution agents
-- tables:    themselves
-- holes:     owner, agent
--
-- An agent writes its position in the commit of the data: that commit, and nothing in the distribution database, shows
-- what was delivered. The columns of the first table are those of SQL Server's.
create table if not exists msrepl.msreplication_subscriptions (
    publisher text not null,
    publisher_db text not null,
    stream integer not null default 0,
    transaction_timestamp pg_lsn not null default '0/0',
    "time" timestamptz not null default clock_timestamp(),
    primary key (publisher, stream)
);
comment on table msrepl.msreplication_subscriptions is 'Up to which transaction of the Publisher each stream has delivered';
create table if not exists msrepl.msreplication_procedures (
    article_id integer not null,
    operation text not null check (operation in ('ins', 'upd', 'del')),
    dest_schema text not null,
    article text not null,
    format text not null,
    shape text not null,
    procedure text,
    signature text,
    is_default boolean not null,
    digest text,
    agent text not null,
    primary key (article_id, operation)
);
comment on table msrepl.msreplication_procedures is 'What distribution agents call for an article, and what unsubscribing drops';
alter table msrepl.msreplication_subscriptions owner to "msrepl_owner_0123456789ab";
alter table msrepl.msreplication_procedures owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msreplication_subscriptions, msrepl.msreplication_procedures from public;
grant usage on schema msrepl to "msrepl_agent_0123456789ab";
grant select, insert, update, delete on msrepl.msreplication_subscriptions to "msrepl_agent_0123456789ab";
grant select on msrepl.msreplication_procedures to "msrepl_agent_0123456789ab";

-- msrepl.sp_msreplraiserror: raises error 20598: the row that a call changes is not here.
-- called by: default procedures of articles; procedures of users that look for the row in the same way
-- tables:    none
-- holes:     owner
--
-- PUBLIC may execute it: it does nothing but fail, and a user's procedure may run as any role. The SQLSTATE
-- is not one that causes a retry: the row does not come back by itself.
create or replace function msrepl.sp_msreplraiserror(
    number integer, command text default null, article text default null, key jsonb default null,
    statement text default null
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    named text;
begin
    select string_agg(format('%I = %s', k.key, coalesce(k.value, 'NULL')), ', ') into named
    from jsonb_each_text($4) as k;
    raise exception using
        errcode = 'no_data_found',
        message = 'the row was not found at the Subscriber when applying the replicated '
            || coalesce($2 || ' ', '') || 'command' || coalesce(' for table ' || $3, '')
            || coalesce(' with primary key ' || named, '') || format(' (%s)', $1),
        detail = json_build_object('kind', 'row_missing', 'number', $1, 'command', $2, 'article', $3,
                                   'key', $4, 'statement', left($5, 1000))::text,
        hint = 'The Subscriber has lost or never had the row: `twopc agent distribution SUBSCRIBER --skip-errors 20598 --once` goes on without the transaction, `twopc validate SUBSCRIBER --repair` mends what is then missing.';
end
$msrepl$;
alter function msrepl.sp_msreplraiserror(integer, text, text, jsonb, text) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.sp_msreplraiserror(integer, text, text, jsonb, text) from public;
grant execute on function msrepl.sp_msreplraiserror(integer, text, text, jsonb, text) to public;
comment on function msrepl.sp_msreplraiserror(integer, text, text, jsonb, text)
    is 'Refuses a call whose row is not here (20598): SQLSTATE P0002, the facts as JSON in DETAIL';

-- msrepl.raise_unfit_call: refuses a call that does not fit its procedure.
-- called by: msrepl.apply_<article>_<operation>
-- tables:    none
-- holes:     owner, agent
--
-- After an ALTER TABLE, calls of the new shape can meet procedures of the old one, or the reverse.
create or replace function msrepl.raise_unfit_call(
    article text, procedure text, state text, reason text, more text
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'a call for table % does not fit its procedure %: %', $1, $2,
        $4 || coalesce(' (' || nullif($5, '') || ')', '')
        using errcode = 'object_not_in_prerequisite_state',
              detail = json_build_object('kind', 'stale_article', 'number', 20500, 'article', $1,
                                         'place', 'Subscriber', 'sqlstate', $3)::text,
              hint = 'If the table was altered at the Publisher, or `twopc article change` was cut off, run: twopc regenerate ' || $1;
end
$msrepl$;
alter function msrepl.raise_unfit_call(text, text, text, text, text) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.raise_unfit_call(text, text, text, text, text) from public;
grant execute on function msrepl.raise_unfit_call(text, text, text, text, text) to "msrepl_agent_0123456789ab";
comment on function msrepl.raise_unfit_call(text, text, text, text, text)
    is 'Says that a call does not fit its procedure, and what to do';

-- msrepl.is_default_procedure: tells whether the default procedure of an article exists and has not been replaced.
-- called by: msrepl.set_<article>_<operation>, msrepl.net_<article>
-- tables:    msrepl.msreplication_procedures; catalogs
-- holes:     owner, agent
create or replace function msrepl.is_default_procedure(article_id integer, operation text) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select exists (
        select from msrepl.msreplication_procedures as p
        join pg_proc as q on q.oid = to_regprocedure(p.signature)
        where (p.article_id, p.operation) = ($1, $2) and p.is_default and p.digest = md5(q.prosrc))
$msrepl$;
alter function msrepl.is_default_procedure(integer, text) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.is_default_procedure(integer, text) from public;
grant execute on function msrepl.is_default_procedure(integer, text) to "msrepl_agent_0123456789ab";
comment on function msrepl.is_default_procedure(integer, text)
    is 'Whether calls may be applied as a set: nobody has replaced the default procedure';

-- msrepl.fires_for_agents: tells whether a trigger or rule fires for the rows that an agent changes
-- in a table.
-- called by: msrepl.set_<article>_upd
-- tables:    catalogs
-- holes:     owner, agent
create or replace function msrepl.fires_for_agents(relation regclass) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select exists (select from pg_trigger as g
                   where g.tgenabled in ('A', 'R')
                     and (g.tgrelid = $1 or g.tgrelid in (select p.relid from pg_partition_tree($1) as p)))
        or exists (select from pg_rewrite as r where r.ev_class = $1 and r.ev_enabled in ('A', 'R'))
$msrepl$;
alter function msrepl.fires_for_agents(regclass) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.fires_for_agents(regclass) from public;
grant execute on function msrepl.fires_for_agents(regclass) to "msrepl_agent_0123456789ab";
comment on function msrepl.fires_for_agents(regclass)
    is 'Whether a trigger or a rule of the table, or of a partition, is not NOT FOR REPLICATION';

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
alter function msrepl.move_position(text, pg_lsn, pg_lsn) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.move_position(text, pg_lsn, pg_lsn) from public;
grant execute on function msrepl.move_position(text, pg_lsn, pg_lsn) to "msrepl_agent_0123456789ab";
comment on function msrepl.move_position(text, pg_lsn, pg_lsn)
    is 'Moves the position of an agent, unless it was moved by somebody else';

-- msrepl.refuse_command: refuses a command for which this Subscriber has no procedure.
-- called by: the distribution agent's statement
-- tables:    none
-- holes:     owner, agent
create or replace function msrepl.refuse_command(code integer) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'nothing takes commands of kind % of article %', code % 100, code / 100
        using errcode = 'object_not_in_prerequisite_state',
              hint = 'How the article is propagated was changed after they were stored: set it back, or'
                     ' initialise the subscription again.';
end
$msrepl$;
alter function msrepl.refuse_command(integer) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.refuse_command(integer) from public;
grant execute on function msrepl.refuse_command(integer) to "msrepl_agent_0123456789ab";
comment on function msrepl.refuse_command(integer) is 'Refuses a command that nothing takes';

-- msrepl.apply_net: applies the net effect of a range of commands: deletes, updates, inserts, in that order.
-- called by: the distribution agent, where commands collide with what this Subscriber has changed itself since
-- tables:    subscribed tables
-- holes:     owner, agent
--
-- A code is article * 100 + type of command. All commands are first applied in the order given. If some
-- block others (a unique value that another row gives up later, a row that is still referred to), each
-- command is tried individually, and again after the others. Updates that only block each other are made in
-- one statement (msrepl.net_<article>). A command that then still fails raises its own error. The rights and
-- the search path are the caller's, so every name here has its schema.
create or replace function msrepl.apply_net(codes integer[], commands text[]) returns bigint
language plpgsql
as $msrepl$
declare
    operations constant text[] := array['ins', 'upd', 'del'];
    left_codes integer[] := codes;
    left_commands text[] := commands;
    later_codes integer[];
    later_commands text[];
    together text[];
    place integer;
    article integer;
begin
    begin
        for place in 1 .. pg_catalog.cardinality(codes) loop
            execute pg_catalog.format('select msrepl.apply_%s_%s($1)', codes[place] / 100, operations[codes[place] % 10])
                using commands[place];
        end loop;
        return pg_catalog.cardinality(codes);
    exception
        when unique_violation or exclusion_violation or foreign_key_violation then
            null;
    end;
    loop
        later_codes := '{}';
        later_commands := '{}';
        for place in 1 .. pg_catalog.cardinality(left_codes) loop
            begin
                execute pg_catalog.format('select msrepl.apply_%s_%s($1)', left_codes[place] / 100,
                                          operations[left_codes[place] % 10])
                    using left_commands[place];
            exception
                when unique_violation or exclusion_violation or foreign_key_violation then
                    later_codes := later_codes || left_codes[place];
                    later_commands := later_commands || left_commands[place];
            end;
        end loop;
        exit when pg_catalog.cardinality(later_codes) = 0;
        if pg_catalog.cardinality(later_codes) = pg_catalog.cardinality(left_codes) then
            -- no progress: updates that block each other, article by article
            for article in
                select distinct l.code / 100 from pg_catalog.unnest(left_codes) as l(code) where l.code % 100 = 2
            loop
                select pg_catalog.array_agg(l.command) into together
                from rows from (pg_catalog.unnest(left_codes), pg_catalog.unnest(left_commands)) as l(code, command)
                where l.code = article * 100 + 2;
                continue when pg_catalog.cardinality(together) < 2;
                begin
                    execute pg_catalog.format('select msrepl.net_%s($1)', article) into place using together;
                    continue when place < 0;
                exception
                    when unique_violation or exclusion_violation or foreign_key_violation then
                        continue;
                end;
                select coalesce(pg_catalog.array_agg(l.code), '{}'), coalesce(pg_catalog.array_agg(l.command), '{}')
                into later_codes, later_commands
                from rows from (pg_catalog.unnest(left_codes), pg_catalog.unnest(left_commands)) as l(code, command)
                where l.code <> article * 100 + 2;
                exit;
            end loop;
            if pg_catalog.cardinality(later_codes) = pg_catalog.cardinality(left_codes) then
                execute pg_catalog.format('select msrepl.apply_%s_%s($1)', left_codes[1] / 100,
                                          operations[left_codes[1] % 10])
                    using left_commands[1];
            end if;
            exit when pg_catalog.cardinality(later_codes) = 0;
        end if;
        left_codes := later_codes;
        left_commands := later_commands;
    end loop;
    return pg_catalog.cardinality(codes);
end
$msrepl$;
alter function msrepl.apply_net(integer[], text[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.apply_net(integer[], text[]) from public;
grant execute on function msrepl.apply_net(integer[], text[]) to "msrepl_agent_0123456789ab";
comment on function msrepl.apply_net(integer[], text[])
    is 'Applies the net effect of a range of commands, whatever is in the way of what';
