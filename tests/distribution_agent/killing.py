"""A program for tests that forks agent processes, each of which can be killed."""

from __future__ import annotations

from typing import Any

from tests.forking import Ended, Forking, serve
from twopc.subscriber.distribution_agent import Config, Profile, main


def work(order: dict[str, Any]) -> str:
    """Run an agent once."""
    profile = order.pop("profile")
    profile["skip_errors"] = tuple(profile.get("skip_errors", ()))
    main(Config(profile=Profile(**profile), once=True, **order))
    return ""


class Killing(Forking):
    """A client of the program."""

    def __init__(self) -> None:
        super().__init__("tests.distribution_agent.killing")

    async def run(self, config: Config, profile: dict[str, Any], arm: str = "") -> Ended:
        """Run one agent once, until its process ends."""
        order = {
            "subscriber": config.subscriber,
            "publisher": config.publisher,
            "distribution_dsn": config.distribution_dsn,
            "subscriber_dsn": config.subscriber_dsn,
            "profile": profile,
        }
        return await self.order(order, arm)


if __name__ == "__main__":
    serve(work)
