"""The distribution database: transactions stored by the log reader, and the subscriptions to them.

The package knows tables and positions; not how a log is read, nor how commands are applied.
"""

from __future__ import annotations

from twopc.publisher.distribution.browse import BrowsedCommand, browse
from twopc.publisher.distribution.install import install, install_texts
from twopc.publisher.distribution.registry import (
    ACTIVE,
    ARTICLES_CHANGED,
    INACTIVE,
    SUBSCRIBED,
    add_originator,
    add_subscription,
    articles,
    drop_article,
    drop_subscription,
    forget_publisher,
    publisher_id,
    put_article,
    put_articles,
    register_publisher,
)
from twopc.publisher.distribution.retention import CleanUp, clean_up, keep_clean, kept
from twopc.publisher.distribution.routines import (
    called,
    drop_proc_article,
    proc_articles,
    put_proc_article,
    set_calls,
    wanted_calls,
)
from twopc.publisher.distribution.status import (
    AgentStatus,
    ReaderStatus,
    agents,
    counting_unread,
    readers,
)

__all__ = [
    "ACTIVE",
    "ARTICLES_CHANGED",
    "INACTIVE",
    "SUBSCRIBED",
    "AgentStatus",
    "BrowsedCommand",
    "CleanUp",
    "ReaderStatus",
    "add_originator",
    "add_subscription",
    "agents",
    "articles",
    "browse",
    "called",
    "clean_up",
    "counting_unread",
    "drop_article",
    "drop_proc_article",
    "drop_subscription",
    "forget_publisher",
    "install",
    "install_texts",
    "keep_clean",
    "kept",
    "proc_articles",
    "publisher_id",
    "put_article",
    "put_articles",
    "put_proc_article",
    "readers",
    "register_publisher",
    "set_calls",
    "wanted_calls",
]
