"""``python -m twopc.subscriber.distribution_agent``: an agent whose `Config` is one JSON object on standard input.

Connection strings contain passwords, which must not appear among a process's arguments.
"""

from __future__ import annotations

import json
import sys

from twopc.errors import TwopcError
from twopc.subscriber.distribution_agent.main import Config, main
from twopc.subscriber.distribution_agent.profile import Profile


def _config(text: str) -> Config:
    given = json.loads(text)
    return Config(profile=Profile.from_json(given.pop("profile", {})), **given)


if __name__ == "__main__":
    try:
        main(_config(sys.stdin.read()))
    except TwopcError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)
