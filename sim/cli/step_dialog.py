"""Commands of ``twopc step``, and the output after each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twopc.errors import ScenarioError
from twopc.sim.cli.items import item_text
from twopc.sim.report import terminal
from twopc.sim.report.fold import Fold
from twopc.sim.report.panel import panel
from twopc.sim.report.timeline import draw, timeline
from twopc.sim.scenario.accept import with_order
from twopc.sim.scenario.judging import judge
from twopc.sim.scenario.text import suggestion

if TYPE_CHECKING:
    from rich.console import Console

    from twopc.sim.cli.walk import Walk
    from twopc.sim.scenario.check import LoadedScenario

HELP = """\
  n, Enter    play what comes next; after the last step, deliver everything
  b           go back one step: everything before it is played again
  f STEP      let STEP come next instead, after what its session does before it
  p           the timeline so far
  w           what each session is doing, what comes next, and which steps could instead
  s FILE      save the scenario with the way that you went as one more order
  q           leave; everything is rolled back and gone
  ?           this help
  ● has just changed, ≠ is not as at the Publisher, ○ is not committed, ⧗ waits"""


class StepDialog:
    """Dialog of one walk, which performs one command at a time."""

    def __init__(self, loaded: LoadedScenario, walk: Walk, out: Console) -> None:
        self._loaded = loaded
        self._walk = walk
        self._out = out

    @property
    def prompt(self) -> str:
        """Prompt with the present position and the next item."""
        walk = self._walk
        if walk.over:
            return "(over) "
        stuck = ", stuck" if walk.stuck else ""
        return f"({walk.at} of {len(walk.items)}{stuck}, next: {self._following}) "

    @property
    def _following(self) -> str:
        """Next item, with a note if its session is blocked: the step is queued, or impossible in a generated order."""
        walk = self._walk
        if walk.following is None:
            return walk.end
        name = walk.following.step
        if name is None or name in walk.ready:
            return item_text(walk.following)
        return f"{name}, which {'cannot be now' if walk.case.is_generated else 'is queued'}"

    def head(self) -> None:
        """Print the scenario, and the state of the nodes before the first step."""
        scenario = self._loaded.scenario
        terminal.head(
            self._out, self._loaded.document.path, scenario.about, scenario.topology.nodes
        )
        self._say(f"{self._walk.case.name}: n next, b back, f STEP another way, ? help")
        self._panel()

    async def do(self, line: str) -> bool:
        """Perform one command. Return False if it ends the dialog."""
        word, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        if word in ("q", "quit", "exit"):
            return False
        if word in ("", "n", "next"):
            await self._next()
        elif word in ("b", "back"):
            await self._back()
        elif word in ("f", "fork"):
            await self._fork(rest)
        elif word in ("p", "picture"):
            draw(timeline(Fold(self._walk.order)), self._out)
        elif word in ("w", "who"):
            self._who()
        elif word in ("s", "save"):
            self._save(rest)
        elif word in ("?", "h", "help"):
            self._say(HELP)
        else:
            self._say(f"there is no command '{word}'; ? lists them")
        return True

    async def _next(self) -> None:
        walk = self._walk
        if walk.over:
            self._say("it is over: b goes back, q leaves")
            return
        seen = len(walk.order)
        why = await walk.next()
        if why:
            self._say(f"not now: {why}; f STEP lets another step come next, b goes back")
            return
        self._tell(seen)
        self._panel()
        if walk.over:
            self._verdict()

    def _tell(self, seen: int) -> None:
        """Print the new entries of the timeline."""
        order = self._walk.order
        if seen == len(order):
            return
        for entry in timeline(Fold(order)).entries:
            if entry.text and entry.seq >= order[seen].seq:
                self._say(f"  {entry.session}: {entry.text}")

    async def _back(self) -> None:
        if self._walk.at == 0 and not self._walk.over:
            self._say("this is the beginning")
            return
        await self._walk.back()
        self._panel()

    async def _fork(self, step: str) -> None:
        walk = self._walk
        ready = walk.ready
        steps = () if walk.over else walk.fork(step)
        if not steps:
            those = f"these can: {', '.join(ready)}" if ready else "no step can"
            hint = suggestion(step, ready)
            self._say(f"'{step}' cannot come next{hint}; {those}" if step else f"f STEP: {those}")
            return
        for _ in steps:
            await self._next()

    def _who(self) -> None:
        for session, doing in self._walk.standing.items():
            self._say(f"  {session}: {doing}")
        walk = self._walk
        others = [
            step for step in walk.ready if walk.following is None or step != walk.following.step
        ]
        text = "nothing: it is over" if walk.over else self._following
        by_hand = f"; by f STEP: {', '.join(others)}" if others else ""
        self._say(f"  comes next: {text}{by_hand}")

    def _save(self, name: str) -> None:
        walk = self._walk
        if not name:
            self._say("s FILE: where to?")
            return
        path = Path(name)
        if path.exists():
            self._say(f"{path} is there already: name another file")
            return
        steps = [item_text(item) for item in walk.items[: walk.at]]
        try:
            text = with_order(self._loaded.document, "as walked", steps)
            path.write_text(text, encoding="utf-8")
        except ScenarioError as error:
            self._say(f"not saved: {error}")
        except OSError as error:
            self._say(f"{path}: cannot be written ({error.strerror})")
        else:
            self._say(
                f"wrote {path} with the order 'as walked'; "
                f"twopc run {path} --order 'as walked' --accept fills in what to expect"
            )

    def _verdict(self) -> None:
        """Print the failed expectations, unless the order differs from the file's."""
        walk = self._walk
        if walk.forked:
            self._say("this was your own way, for which nothing is expected")
            return
        verdict = judge(walk.case, walk.order)
        if not verdict.failures:
            self._say("as expected")
        document = self._loaded.document
        for failure in verdict.failures:
            mark = document.mark(failure.path)
            where = f"{mark.path or document.path}:{mark.line}:{mark.column}"
            terminal.failure(self._out, where, document.excerpt(mark), failure.message)

    def _panel(self) -> None:
        self._out.print(panel(self._walk.records, width=self._out.width))

    def _say(self, text: str) -> None:
        self._out.print(text, markup=False, soft_wrap=True)
