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
        later_codes := '{{}}';
        later_commands := '{{}}';
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
                select coalesce(pg_catalog.array_agg(l.code), '{{}}'), coalesce(pg_catalog.array_agg(l.command), '{{}}')
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
alter function msrepl.apply_net(integer[], text[]) owner to {owner};
revoke all on function msrepl.apply_net(integer[], text[]) from public;
grant execute on function msrepl.apply_net(integer[], text[]) to {agent};
comment on function msrepl.apply_net(integer[], text[])
    is 'Applies the net effect of a range of commands, whatever is in the way of what';
