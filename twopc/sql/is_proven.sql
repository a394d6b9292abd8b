-- fragment: FOUND if the coordinator of a global transaction itself says what is said.
-- called by: rendered into name_transaction and prepare_publisher (a function of its own would cost twice as much)
-- tables:    msrepl.coordinator_key
-- holes:     what, gid, proof
--
-- what: `begin`, which the application's session may know as long as its transaction lasts, or `vote` and all
-- branches, which it never learns in time; either holds for this session alone. The key stands at both ends, so that
-- nobody can make a proof of a longer text.
    perform from msrepl.coordinator_key as k
    where k.key_id = split_part({proof}, '.', 1) and starts_with({gid}, 'twopc:' || k.coordinator || ':')
      and split_part({proof}, '.', 2) = encode(sha256(k.key || convert_to({what} || ' ' || {gid} || ' ' || pg_backend_pid(), 'UTF8') || k.key), 'hex');
