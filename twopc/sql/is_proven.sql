-- fragment: FOUND if a proof is that of the coordinator of a global transaction.
-- called by: rendered into name_transaction and prepare_publisher (a separate function would cost twice as much)
-- tables:    msrepl.coordinator_key
-- holes:     what, gid, proof
--
-- what: `begin`, which the application's session may know while its transaction lasts, or `vote` and all branches,
-- which it never learns in time; either is valid for this session only. The key is at both ends, so that no proof of
-- a longer text can be derived.
    perform from msrepl.coordinator_key as k
    where k.key_id = split_part({proof}, '.', 1) and starts_with({gid}, 'twopc:' || k.coordinator || ':')
      and split_part({proof}, '.', 2) = encode(sha256(k.key || convert_to({what} || ' ' || {gid} || ' ' || pg_backend_pid(), 'UTF8') || k.key), 'hex');
