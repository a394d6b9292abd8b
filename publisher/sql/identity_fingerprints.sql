-- fragment: includes replica identities in the fingerprints, since the log must hold as much of old
-- rows as before.
-- called by: rendered into msrepl.fingerprints
-- tables:    catalogs
-- holes:     none
      union all
        select format('%s replica identity %s', c.oid, c.relreplident)
        from relations as r
        join pg_class as c on c.oid = r.oid
