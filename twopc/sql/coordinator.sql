-- msrepl.coordinator: the topologies that log their decisions in this distribution database.
-- called by: code that sets up a topology; its operators
-- tables:    itself
-- holes:     none
--
-- Their names are part of gids and roles, and outlive their epochs, which are removed.
create table if not exists msrepl.coordinator (
    name text primary key
);
comment on table msrepl.coordinator is 'The topologies that log their decisions here';
