"""The distribution database: what the log reader stores for the Subscribers, and who is to get it.

Knows tables and positions; not how a log is read, nor how commands are applied.
"""

from __future__ import annotations

from publisher.distribution.install import install, install_texts

__all__ = ["install", "install_texts"]
