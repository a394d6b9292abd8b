-- msrepl.is_proven: whether the coordinator of a global transaction itself says what is said.
-- called by: name_transaction, prepare_publisher
-- tables:    msrepl.coordinator_key
-- holes:     owner
--
-- what: `begin`, which the application's session may know as long as its transaction lasts, or `vote` and all
-- branches, which it never learns in time; either holds for this session alone. The key stands at both ends, so that
-- nobody can make a proof of a longer text.
create or replace function msrepl.is_proven(what text, gid text, proof text) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    return exists (
        select from msrepl.coordinator_key as k
        where k.key_id = split_part($3, '.', 1) and starts_with($2, 'twopc:' || k.coordinator || ':')
          and split_part($3, '.', 2) = encode(sha256(k.key || convert_to($1 || ' ' || $2 || ' ' || pg_backend_pid(), 'UTF8') || k.key), 'hex')
    );
end
$msrepl$;
alter function msrepl.is_proven(text, text, text) owner to {owner};
revoke all on function msrepl.is_proven(text, text, text) from public;
comment on function msrepl.is_proven(text, text, text) is 'Whether a coordinator itself says so of its transaction';
