"""Identity values in random histories: servers and the model draw, allot and refuse the same."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.agreement.test_catalogue import on_model
from twopc.server import EmbeddedServer
from twopc.sim.report.history import History
from twopc.sim.scenario.agree import compare
from twopc.sim.scenario.check import load
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.theatres import played

NODES = ("pub", "mid", "anna", "ben")


def history(seed: int, kind: str, length: int = 40) -> dict[str, Any]:
    """Return a scenario with one order on a tree, which draws and names identity values.

    Its other steps merge, back up databases and restore them. The republisher's Subscriber has a subscription of the
    given kind.
    """
    rng = random.Random(seed)
    sessions: dict[str, list[dict[str, Any]]] = {node: [] for node in NODES}
    order: list[Any] = []
    kept: list[str] = []
    for place in range(length):
        node = rng.choice(NODES)
        what = rng.choices(("draw", "sync", "name", "backup", "restore"), (8, 6, 2, 2, 2))[0]
        step = f"s{place}"
        if what == "draw":
            rows = ", ".join(f"('{step}')" for _ in range(rng.randint(1, 8)))
            text = (
                f"insert into orders (item) values {rows} on conflict (id) do nothing returning id"
            )
            sessions[node].append({step: {"sql": text}})
        elif what == "name":
            value = rng.randint(1, 60)
            text = f"insert into orders values ({value}, '{step}') on conflict (id) do nothing"
            sessions[node].append({step: {"sql": text}})
        elif what == "sync" and node != "pub":
            sessions[node].append({step: "sync"})
        elif what == "backup":
            kept.append(node)
            order.append({"backup": node})
            continue
        elif what == "restore" and node in kept:
            order.append({"restore backup": node})
            continue
        else:
            continue
        order.append(step)
    return {
        "twopc": 1,
        "name": f"drawn-{seed}",
        "topology": {
            "replication": "merge",
            "publisher": "pub",
            "subscribers": ["mid", "ben", "anna"],
            "republishers": {"mid": ["anna"]},
        },
        "subscribers": {
            "mid": {"merge": {"type": "server", "priority": 50}},
            **({"anna": {"merge": {"type": "server", "priority": 25}}} if kind == "server" else {}),
        },
        "tables": {
            "orders": {
                "columns": {"id": "serial primary key", "item": "text"},
                "merge": {"identity": {"subscriber": 5, "publisher": 20, "threshold_percent": 80}},
            }
        },
        "sessions": {
            node: {"node": node, "steps": steps} for node, steps in sessions.items() if steps
        },
        "orders": [{"name": "drawn", "steps": order}],
    }


@pytest.mark.parametrize(("seed", "kind"), ((2, "client"), (40, "client"), (40, "server")))
def test_servers_and_the_model_draw_the_same(
    seed: int, kind: str, server: EmbeddedServer, tmp_path: Path
) -> None:
    """Servers and the model agree, also at a republisher and after databases were restored.

    Ranges may have gaps, where values were allotted to other nodes.
    """
    path = tmp_path / f"drawn_{seed}.twopc.yaml"
    path.write_text(json.dumps(history(seed, kind)), encoding="utf-8")
    loaded, records = load(path), History()

    async def play() -> None:
        async with PostgresTheatre(server=server) as theatre:
            await run(loaded, theatre, records)

    played("postgres", play())
    _, others = on_model(loaded)
    differences = compare(records.records, others.records)
    assert [each.text("servers", "the model") for each in differences] == []
