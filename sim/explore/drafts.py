"""Text of a scenario of one order, written so that it passes when it is played unchanged.

Expectations that the order does not meet are left out, each with a remark. Must not run inside an event loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twopc.errors import ScenarioError
from twopc.sim.explore.cards import as_item
from twopc.sim.explore.order_expectation import expectation
from twopc.sim.explore.plays import OrderPlay, PlayChance, play
from twopc.sim.explore.variants import PROTECTION
from twopc.sim.explore.wire.runs import PlayVariant
from twopc.sim.scenario import check
from twopc.sim.scenario.accept import with_only
from twopc.sim.scenario.expectations import ASKED_FOR, DEFAULTS
from twopc.sim.scenario.judging import FailedCheck, OrderVerdict, judge
from twopc.sim.scenario.scenario_files import BYTES_MAX
from twopc.sim.scenario.steps import OF_AGENTS
from twopc.sim.scenario.text import Document, Number, Path, listed

#: Checks with settings of their own, which `false` cannot disable.
_WITH_SETTINGS = ("sum", "sql", "commands", "diverged")
#: Checks that `false` disables.
_INVARIANTS = frozenset((*DEFAULTS, *ASKED_FOR)) - {*_WITH_SETTINGS}
#: Values of `allow` by the text of the failed check.
_ALLOWANCES = {"not reached": "fault_not_reached", "no effect": "fault_without_effect"}


@dataclass(kw_only=True)
class ScenarioDraft:
    """A scenario of one order that is being written."""

    document: Document
    order: dict[str, Any]
    """The order with its expectations, as in a file."""
    values: dict[Path, Any]
    """Other values that differ from the document's."""
    more: dict[str, Sequence[Mapping[str, Any]]]
    """Further keys of the file, each with a list."""
    without: list[str]
    """Keys of the document that are left out."""
    other: PlayChance
    """Another time and another seed."""
    remarks: list[str] = field(default_factory=list)
    """What the text leaves out, and why."""

    @property
    def text(self) -> str:
        """The present text."""
        return with_only(
            self.document, self.order, values=self.values, more=self.more, without=self.without
        )

    def settle(self) -> None:
        """Remove the expectations that the order does not meet.

        Raises:
            ScenarioError: the order fails without them too, or the text is no scenario.
        """
        while failures := self._judged().failures:
            one_each = {each.check: each for each in reversed(failures)}
            for failure in one_each.values():
                if not self._give_up(failure):
                    raise ScenarioError(f"no file can expect what is shown: {failure.message}")

    def _give_up(self, failure: FailedCheck) -> bool:
        """Remove the expectation of a failed check. Return False if nothing was left to remove."""
        expect, path = self.order["expect"], failure.path
        if failure.check in _INVARIANTS and expect.get(failure.check) is not False:
            expect[failure.check] = False
            return True
        lapse = _ALLOWANCES.get(failure.actual_text) if failure.check == "faults" else None
        if lapse is not None:
            allowed = expect.setdefault("allow", [])
            self.remarks.append(f"Allowed: {failure.message.partition('. Correct')[0]}.")
            is_new = lapse not in allowed
            expect["allow"] = [*dict.fromkeys((*allowed, lapse))]
            return is_new
        if path[:1] == ("expect",):
            return self._left_out(str(path[1]), failure)
        if path[:1] == ("sessions",) and failure.actual is not None:
            if path in self.values or failure not in self._judged(self.other).failures:
                return False  # it depends on the clock or the seed
            self.values[path] = failure.actual
            self.remarks.append(f"Otherwise than in the file: {failure.message}.")
            return True
        if path[:3] == ("orders", 0, "expect") and path[3] in expect:
            self.remarks.append(f"Not expected: {failure.message}.")
            names = expect[path[3]]
            if len(path) > 4 and isinstance(names, dict) and len(names) > 1:
                del names[path[4]]
            else:
                del expect[path[3]]
            return True
        return False

    def _left_out(self, name: str, failure: FailedCheck) -> bool:
        """Remove an expectation that the file has for every order."""
        assert self.document.root is not None, "it has been read"
        before: Mapping[str, Any] = self.values.get(("expect",), self.document.root["expect"])
        self.remarks.append(f"Not expected: {failure.message}.")
        self.values.pop(("expect",), None)
        kept = {key: _plain(value) for key, value in before.items() if key != name}
        if kept:
            self.values[("expect",)] = kept
        else:
            self.without.append("expect")
        return name in before

    def add_twin(self, off: Sequence[str], done: OrderPlay, second: OrderPlay) -> None:
        """Add a twin for a check that fails without the protections and holds with them, if there is one.

        Args:
            off: the protections.
            done: the order played without them.
            second: the same order played at another time, with another seed.
        """
        without = f"Without {listed(each.replace('_', ' ') for each in off)}"
        if done.run["possible"] is not True:
            self._no_twin(f"{without} the order cannot be: {done.run['possible']['reason']}")
            return
        taken_out = [each for each in _INVARIANTS if self.order["expect"].get(each) is False]
        broken = [each["name"] for each in done.run["invariants"] if not each["holds"]]
        broken += [each for each in ("sum", "sql") if done.verdict and each in done.verdict.failed]
        broken = [each for each in broken if each not in taken_out]
        if not broken:
            self._no_twin(f"{without} nothing is broken that holds with it")
            return
        reasons = []
        ended, _ = expectation(done, second)
        for must_fail in sorted(broken, key=lambda each: each != "no_lost_update"):
            twin = {
                "protections": dict.fromkeys(off, "off"),
                "must_fail": must_fail,
                "expect": self._of_twin(must_fail, broken, done, ended),
            }
            self.more["twin"] = [{key: value for key, value in twin.items() if value}]
            try:
                failures = self._judged_twin().failures
            except ScenarioError as error:
                reasons.append(str(error))
                continue
            if not failures:
                return
            reasons += [each.message for each in failures]
        del self.more["twin"]
        self._no_twin(f"{without}, {reasons[0]}")

    def _no_twin(self, why: str) -> None:
        self.remarks.append(f"No twin, and the order as it is with every protection: {why}.")

    def _of_twin(
        self, must_fail: str, broken: Sequence[str], done: OrderPlay, ended: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the twin's expectations other than the failing check: how it ends differently from the order."""
        expect: dict[str, Any] = {each: False for each in broken if each in _INVARIANTS}
        expect.pop(must_fail, None)
        if must_fail in ASKED_FOR and must_fail in _INVARIANTS:
            expect[must_fail] = True
        own = self.order["expect"]
        doubtful = {name: each for name, each in ended.get("sessions", {}).items() if each == "in doubt"}  # fmt: skip
        if doubtful:  # other outcomes need no expectation
            expect["sessions"] = doubtful
        steps = {}
        for item in done.chosen.case.items:
            if item.step and done.chosen.case.scenario.steps[item.step][1].action in OF_AGENTS:
                now = ended.get("steps", {}).get(item.step, "ok")
                if own.get("steps", {}).get(item.step, "ok") != now and must_fail != "converged":
                    steps[item.step] = now
        return {**expect, **({"steps": steps} if steps else {})}

    def checked(self) -> str:
        """Return the text after reading it and playing it once more.

        Raises:
            ScenarioError: the text is no scenario, or does not pass.
        """
        if len(self.text.encode()) > BYTES_MAX:
            raise ScenarioError(
                f"what would be written has over {BYTES_MAX} bytes, which no scenario has"
            )
        failures = [*self._judged().failures]
        if "twin" in self.more:
            failures += self._judged_twin().failures
        if failures:
            raise ScenarioError(
                f"what was written does not pass: {listed(each.message for each in failures)}"
            )
        return self.text

    def _judged(self, chance: PlayChance | None = None) -> OrderVerdict:
        done = self._play({}, chance)
        if done.verdict is None or done.run["possible"] is not True:
            raise ScenarioError("the order cannot be as it would be written")
        return done.verdict

    def _judged_twin(self) -> OrderVerdict:
        done = self._play({f"{PROTECTION}{name}": "off" for name in self.more["twin"][0]["protections"]})  # fmt: skip
        made = done.chosen.case
        written = check.parse(self.text, self.document.path).scenario
        (twin,), (listed_order,) = written.twins, written.orders
        case = dataclasses.replace(made, order=listed_order, twin=twin, at=("twin", 0), number=0)
        return judge(case, done.own)

    def _play(self, switched: Mapping[str, str], chance: PlayChance | None = None) -> OrderPlay:
        try:
            loaded = check.parse(self.text, self.document.path)
        except ScenarioError as error:
            problems = [line for line in str(error).splitlines() if ": error: " in line]
            why = "; ".join(line.partition(": error: ")[2] for line in problems) or str(error)
            raise ScenarioError(f"what would be written is no scenario: {why}") from error
        (order,) = loaded.scenario.orders
        variant: PlayVariant = {
            "order": [as_item(item) for item in order.steps],
            "listed": order.name,
            "switches": {**switched},
        }
        return play(loaded, variant, chance or PlayChance())


def _plain(value: Any) -> Any:
    """Return a value of a document in plain types for a new document."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, Number):
        return int(value) if value.lstrip("-").isdigit() else float(value)
    return value
