-- dblink in a separate schema, for the owner of our functions only.
-- called by: twopc.subscriber.subscription, the script of a subscription
-- tables:    none
-- holes:     owner, link_schema, link_schema_text
--
-- An open link belongs to the session, not to a role: any role that may execute dblink functions could use it.
do $msrepl$
declare
    held text;
begin
    select n.nspname into held
    from pg_extension e
    join pg_namespace n on n.oid = e.extnamespace
    where e.extname = 'dblink';
    if held <> {link_schema_text} then
        raise exception 'extension dblink is in schema "%", where every role may use an open link', held
            using errcode = 'object_not_in_prerequisite_state',
                  hint = format('ALTER EXTENSION dblink SET SCHEMA %I', {link_schema_text});
    elsif held is null then
        if to_regnamespace({link_schema_text}) is null then
            create schema {link_schema};
            comment on schema {link_schema} is 'Made for a subscription, with dblink in it';
        end if;
        create extension dblink schema {link_schema};
        comment on extension dblink is 'Made for a subscription';
    end if;
end
$msrepl$;
revoke all on all functions in schema {link_schema} from public;
revoke all on schema {link_schema} from public;
grant usage on schema {link_schema} to {owner};
grant execute on all functions in schema {link_schema} to {owner};
