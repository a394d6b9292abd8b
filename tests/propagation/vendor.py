"""AdventureWorks' Vendor, the seed's example."""

from __future__ import annotations

from twopc.articles import Article, Column
from twopc.subscriber.propagation.calls import SubscriberSide

#: Column, the seed's type, PostgreSQL's type.
COLUMNS = (
    ("vendorid", "int", "integer"),
    ("accountnumber", "nvarchar(15)", "character varying(15)"),
    ("name", "nvarchar(50)", "character varying(50)"),
    ("creditrating", "tinyint", "smallint"),
    ("preferredvendorstatus", "bit", "boolean"),
    ("activeflag", "bit", "boolean"),
    ("purchasingwebserviceurl", "nvarchar(1024)", "character varying(1024)"),
    ("modifieddate", "datetime", "timestamp without time zone"),
)
VENDOR = Article(
    schema="purchasing",
    table="vendor",
    columns=tuple(
        Column(name=name, type=kind, not_null=name == "vendorid") for name, _, kind in COLUMNS
    ),
    key=("vendorid",),
)
PLACE = SubscriberSide(
    owner="msrepl_owner_0123456789ab", agent="msrepl_agent_0123456789ab", table_owner="purchasing"
)
