-- The role that owns our objects at a Subscriber, and their schema.
-- called by: twopc.subscriber.subscription, the script of a subscription
-- tables:    none
-- holes:     owner, owner_text, schema
do $msrepl$
begin
    if not exists (select from pg_roles where rolname = {owner_text}) then
        create role {owner} nologin;
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
create schema if not exists {schema};
grant all on schema {schema} to {owner};
