create table account (
    id integer primary key,
    owner text not null,
    balance integer not null,
    version integer not null default 1
);
insert into account (id, owner, balance) values (1, 'alice', 100), (2, 'bob', 100);
