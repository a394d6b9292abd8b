"""The orders of a run by name: the generated orders, the cells and the repeats of one name form a group.

A generated order is played many times, each time in another sequence; a report shows one line for it, and one
picture for each behaviour. Pure functions of the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twopc.sim.report.behaviour import fingerprint
from twopc.sim.report.event_records import header_of, select
from twopc.sim.report.events import GroupTally, InfeasibleOrder, SkippedTwin
from twopc.sim.report.history import HistoryRecord, by_order
from twopc.sim.report.judgement import Verdict, word, worst
from twopc.sim.report.recorded_orders import PlayedOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """The counts that a run records for a generated order."""

    orders: int = 0
    """Number of orders that satisfy the constraints."""
    run: int = 0
    """Number of orders that were played."""
    infeasible: int = 0
    """Number of orders that cannot be played, as a step would belong to a blocked session."""
    behaviours: int = 0
    """Number of different behaviours."""
    left_out: int = 0
    """Number of orders that were neither played nor equivalent to one that was."""
    limit: str = ""
    """The limit because of which orders were left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportGroup:
    """The orders of one name."""

    name: str
    orders: tuple[PlayedOrder, ...]
    """The orders that were played to their end, in the order of playing."""
    prints: Mapping[str, str]
    """The fingerprint of each order's behaviour, by its name."""
    counts: GroupCounts | None
    """The counts of a generated order; None for a listed one."""
    in_vain: str = ""
    """Why an order could not be played; empty if all could."""

    @property
    def cell(self) -> Mapping[str, str]:
        """The values of the matrix with which the group was played; empty without a matrix."""
        return dict(self._about.get("cell") or {})

    @property
    def twin(self) -> Mapping[str, Any]:
        """`protections` that are switched off and the check that `must_fail`; empty if the group is no twin."""
        return dict(self._about.get("twin") or {})

    @property
    def about(self) -> str:
        """The author's description."""
        return self.orders[0].about if self.orders else ""

    @property
    def failed(self) -> tuple[PlayedOrder, ...]:
        """The orders that did not pass."""
        return tuple(order for order in self.orders if order.verdict["kind"])

    @property
    def kind(self) -> str:
        """The worst kind of failure; ``unstable`` if a repeat of an order behaved differently; ``unknown``
        if none of its orders could be played.
        """
        result = worst([order.verdict["kind"] or "" for order in self.orders])
        if not self.orders:
            return "unknown"
        if not result and self.is_needless:
            return "safety"
        return result or ("unstable" if self.unstable else "")

    @property
    def is_needless(self) -> bool:
        """Whether the group is a twin of a generated order and no check failed in any of its orders."""
        counted = self.twin and self.counts is not None
        checks = [order.verdict.get("failed_checks") for order in self.orders]
        return bool(counted and checks) and all(each == [] for each in checks)

    @property
    def unstable(self) -> int:
        """The largest number of behaviours of one repeated order; 0 if its behaviour was always the same."""
        ways: dict[Any, set[str]] = {}
        for order in self.orders:
            ways.setdefault(order.labels.get("number", 0), set()).add(self.prints[order.name])
        most = max((len(each) for each in ways.values()), default=0)
        return most if most > 1 and self.repeats > 1 else 0

    @property
    def repeats(self) -> int:
        """How many times each order was played."""
        return max((int(order.labels.get("repeat") or 1) for order in self.orders), default=1)

    @property
    def alike(self) -> dict[str, list[PlayedOrder]]:
        """The orders by behaviour; drawing the first of each is enough."""
        results: dict[str, list[PlayedOrder]] = {}
        for order in self.orders:
            results.setdefault(self.prints[order.name], []).append(order)
        return results

    @property
    def drawn(self) -> list[PlayedOrder]:
        """The orders to draw: one of each behaviour, failed ones first."""
        firsts = [
            next((order for order in of if order.verdict["kind"]), of[0])
            for of in self.alike.values()
        ]
        return sorted(firsts, key=lambda order: not order.verdict["kind"])

    @property
    def shown(self) -> list[PlayedOrder]:
        """The order that a terminal shows in full: the first failed one, or else the only one if all behaved alike."""
        failed = [order for order in self.drawn if order.verdict["kind"]]
        return failed[:1] or (self.drawn if len(self.drawn) == 1 else [])

    @property
    def also_failed(self) -> list[PlayedOrder]:
        """The failed orders of each further behaviour."""
        return [order for order in self.drawn if order.verdict["kind"]][1:]

    def label(self, order: PlayedOrder) -> str:
        """Return the name of a drawn order and the number of orders like it: ``every order #1, and 3 like it``."""
        like = len(self.alike[self.prints[order.name]]) - 1
        return f"{order.name}, and {like:,} like it" if like and self.repeats == 1 else order.name

    @property
    def elapsed_ms(self) -> float:
        """Total time of all its orders, in milliseconds."""
        return sum(float(order.verdict["elapsed_ms"]) for order in self.orders)

    @property
    def _about(self) -> Mapping[str, Any]:
        return self.orders[0].labels if self.orders else {}

    def text(self) -> str:
        """Return the notable facts in one line."""
        parts = [counts_text(self.counts)] if self.counts is not None else []
        if not self.orders:
            parts.append(f"nothing could be played: {self.in_vain}".removesuffix(": "))
        if self.repeats > 1:
            parts.append(self._repeated())
        if self.counts is None or (self.twin and not self.failed):
            parts += self._notes()
        return "; ".join(parts)

    def _notes(self) -> list[str]:
        """Return the notes of the first order that has any; for a twin, of the first in which checks failed."""
        if self.is_needless:
            return [f"nothing failed in any of its orders, and {self.twin['must_fail']} must"]
        missed = [order for order in self.orders if order.verdict.get("failed_checks")]
        orders = missed or self.orders
        return next((list(n) for order in orders if (n := order.verdict["notes"])), [])

    def _repeated(self) -> str:
        if self.failed:
            return f"failed {len(self.failed)} of {len(self.orders)}"
        if self.unstable:
            return f"{self.unstable} behaviours in {self.repeats} runs"
        return f"{self.repeats} times alike"

    def verdict(self) -> Verdict:
        """Return the group as in ``verdict.json``."""
        counts = self.counts
        report: Verdict = {
            "name": self.name,
            "verdict": word(self.kind),
            "kind": self.kind or None,
            "elapsed_ms": round(self.elapsed_ms, 3),
            "notes": self.text(),
            "run": len(self.orders),
            "failed": len(self.failed),
            "behaviours": len(self.alike),
        }
        if counts is not None:
            report |= {"orders": counts.orders, "infeasible": counts.infeasible}
        if counts is not None and counts.left_out:
            report |= {"left_out": counts.left_out, "limit": counts.limit}
        if self.repeats > 1:
            report["repeats"] = self.repeats
        return report | {
            name: value for name, value in (("cell", self.cell), ("twin", self.twin)) if value
        }


def groups(records: Sequence[HistoryRecord]) -> list[ReportGroup]:
    """Return the groups of a run, in the order of playing."""
    header = header_of(records)
    counts: dict[str, GroupCounts | None] = {}
    first: dict[str, int] = {}
    for group in select(records, GroupTally):
        if group.counts:
            name = str(group.counts.get("group", ""))
            counts[name], first[name] = _counts(group.counts), group.seq
    members: dict[str, list[PlayedOrder]] = {name: [] for name in counts}
    prints: dict[str, str] = {}
    in_vain: dict[str, str] = {}
    for name, of in by_order(records):
        order = PlayedOrder(name=name, header=header, records=of)
        infeasible = next(select(of, InfeasibleOrder), None)
        if infeasible is not None:  # the order is counted but was not played to its end
            in_vain.setdefault(str(order.labels.get("group") or name), infeasible.message)
            continue
        members.setdefault(str(order.labels.get("group") or name), []).append(order)
        prints[name] = str(order.verdict.get("behaviour") or "") or fingerprint(of)
    first |= {name: of[0].records[0].seq for name, of in members.items() if of}
    return [
        ReportGroup(
            name=name,
            orders=tuple(members[name]),
            prints=prints,
            counts=counts.get(name),
            in_vain=in_vain.get(name, ""),
        )
        for name in sorted(members, key=lambda name: first[name])
    ]


def _counts(data: Mapping[str, Any]) -> GroupCounts | None:
    """Return the counts in a group's record; None for a listed order."""
    behaviours = data.get("behaviours", 0)
    if int(data.get("orders", 1)) <= 1:
        return None
    return GroupCounts(
        orders=int(data["orders"]),
        run=int(data.get("run", 0)),
        infeasible=int(data.get("infeasible", 0)),
        behaviours=behaviours if isinstance(behaviours, int) else len(behaviours),
        left_out=int(data.get("left_out", 0)),
        limit=str(data.get("limit", "")),
    )


def skipped_twins(records: Sequence[HistoryRecord]) -> list[str]:
    """Return the twins that were not played, with the reasons."""
    return [each.message for each in select(records, SkippedTwin)]


def counts_text(counts: GroupCounts) -> str:
    """Return the counts as ``24 of 36 feasible, 4 behaviours (run: 4)``, and the limit if orders were left out."""
    ways = f"{counts.behaviours:,} behaviour{'' if counts.behaviours == 1 else 's'}"
    if counts.left_out:
        why = f" ({counts.limit})" if counts.limit else ""
        known = f"{counts.orders - counts.left_out:,} of {counts.orders:,}{why}"
        infeasible = f"{counts.infeasible:,} infeasible, " if counts.infeasible else ""
        return f"{known}: {infeasible}{ways} (run: {counts.run:,})"
    feasible = f"{counts.orders - counts.infeasible:,} of {counts.orders:,} feasible"
    return f"{feasible}, {ways} (run: {counts.run:,})"
