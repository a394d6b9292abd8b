"""Generates docs/rights.md: ``python -m tests.rights``."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.rights.table import one_of_everything, page
from twopc.server import EmbeddedServer

PAGE = Path(__file__).parents[2] / "docs" / "rights.md"


async def main() -> None:
    """Read the privileges of a fresh topology, and write the page."""
    with EmbeddedServer.start() as server:
        async with one_of_everything(server) as topology:
            PAGE.write_text(await page(topology), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
