"""The script of a subscription: everything that a Subscriber must run, as one SQL text.

The analogue of sp_script_synctran_commands (seed 002): for a subscription that is not initialised by us
(sync type "none"), whose tables and rows are at the Subscriber already, row versions included. Whoever
runs it, `subscriber.subscription.addsynctriggers` or psql, brings the link's password along; it is not in
the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from psycopg import sql

from subscriber.objects import LinkAddress, install_texts, owner_role, role_texts, user_mapping_text
from subscriber.triggers import Sites
from twopc.drivers.install import participant_texts

_HEAD = """\
-- Subscription of {subscriber} to {publisher}, sync type "none": run it in database {database} as a superuser.
--
--   psql --single-transaction --set ON_ERROR_STOP=1 --file THIS_FILE
--
-- The tables are there already, with the Publisher's rows and row versions. Then tell the link its password
-- (at the Publisher: ALTER ROLE {role} PASSWORD ...):
--
--   {mapping};
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncScript:
    """The script of one subscription, and what the link needs besides."""

    text: str
    role: str
    """Under which the link works at the Publisher."""
    password: str = field(repr=False)


def script_synctran_commands(
    articles: Sequence[Sequence[str]],
    *,
    database: str,
    sites: Sites,
    link: LinkAddress,
    app_role: str,
    coordinator_role: str,
) -> str:
    """The script, from what `subscriber.subscription.article_commands` gives for each article.

    Args:
        database: the Subscriber's.
        app_role: the application's role there.
    """
    owner = owner_role(database)
    mapping = user_mapping_text(sql.Identifier(owner), link.role, "...")
    head = _HEAD.format(
        subscriber=sites.subscriber,
        publisher=sites.publisher,
        database=database,
        role=link.role,
        mapping=mapping,
    )
    commands = [
        *install_texts(database, sites, link),
        *(command for article in articles for command in article),
        *role_texts(app_role, coordinator_role),
        *participant_texts(owner, coordinator_role),
    ]
    return head + "".join(_ended(command) for command in commands)


def _ended(command: str) -> str:
    text = command.strip()
    return f"\n{text}\n" if text.endswith(";") else f"\n{text};\n"
