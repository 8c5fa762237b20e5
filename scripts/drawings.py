"""Draws the pictures of docs/*.svg, which explain; `scripts/pictures.py` photographs the program.

    python scripts/drawings.py            # writes all of them
    python scripts/drawings.py --check    # ends with 1 if one is not as the script draws it

A drawing is 400 units wide, so that its text can be read on a phone.  Its colours follow the reader's light or dark
scheme.  Times are idealized: no drawing shows a measurement.
"""

from __future__ import annotations

import html
import pathlib
import re
import sys
from collections.abc import Callable, Sequence

DOCS = pathlib.Path(__file__).parents[1] / "docs"
WIDTH = 400
_STYLE = """
  svg { background: #ffffff; font-family: sans-serif; font-size: 14px; }
  text { fill: #1f2328; }
  .note { font-size: 12px; fill: #59636e; }
  .bold { font-weight: bold; }
  .box { fill: #f6f8fa; stroke: #59636e; stroke-width: 1.5; }
  .ps { fill: #ddf4ff; stroke: #0969da; stroke-width: 1.5; }
  .step { fill: #54aeff; }
  .other { fill: #b6e3ff; }
  .wait { fill: #ffffff; stroke: #59636e; stroke-dasharray: 3 2; }
  .alarm { fill: #ffaba8; stroke: #cf222e; }
  .done { fill: #aceebb; stroke: #1a7f37; }
  .line { stroke: #59636e; stroke-width: 1.5; fill: none; }
  .tip { fill: #59636e; }
  @media (prefers-color-scheme: dark) {
    svg { background: #0d1117; }
    text { fill: #f0f6fc; }
    .note { fill: #9198a1; }
    .box { fill: #151b23; stroke: #9198a1; }
    .ps { fill: #121d2f; stroke: #4493f8; }
    .step { fill: #1f6feb; }
    .other { fill: #0c2d6b; }
    .wait { fill: #0d1117; stroke: #9198a1; }
    .alarm { fill: #67060c; stroke: #f85149; }
    .done { fill: #033a16; stroke: #3fb950; }
    .line { stroke: #9198a1; }
    .tip { fill: #9198a1; }
  }
"""


class Drawing:
    """Shapes of one picture, from top to bottom.

    Args:
      title: says in one sentence what the picture shows, for readers who do not see it.
      width: in units, which are pixels if the picture has its full size.
    """

    def __init__(self, title: str, width: int = WIDTH) -> None:
        self._title, self._width = title, width
        self._parts: list[str] = []
        self._height = 0.0

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        """Writes a line of text; y is that of its base line."""
        self._add(y + 6, f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{html.escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box", *lines: str) -> None:
        """Draws a box with lines of text in its middle, the first one bold."""
        self._add(
            y + height, f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>'
        )
        top = y + height / 2 - 9 * (len(lines) - 1) + 5
        for number, line in enumerate(lines):
            self.text(x + width / 2, top + 18 * number, line, "note" if number else "bold", "middle")

    def bar(self, x: float, y: float, width: float, kind: str) -> None:
        """Draws a piece of a timeline, 16 units high."""
        self._add(y + 16, f'<rect class="{kind}" x="{x:.1f}" y="{y:g}" width="{max(width - 1, 0.5):.1f}" height="16"/>')

    def arrow(self, *points: tuple[float, float], both: bool = False) -> None:
        """Draws an arrow through these points."""
        path = " L".join(f"{x:g} {y:g}" for x, y in points)
        start = ' marker-start="url(#tip)"' if both else ""
        self._add(max(y for _, y in points), f'<path class="line" d="M{path}"{start} marker-end="url(#tip)"/>')

    def legend(self, y: float, *entries: tuple[str, str]) -> None:
        """Writes what the kinds of bars mean, in one line."""
        x = 10.0
        for kind, text in entries:
            self.bar(x, y, 17, kind)
            self.text(x + 21, y + 13, text, "note")
            x += 32 + 6.3 * len(text)

    def _add(self, bottom: float, part: str) -> None:
        self._parts.append(part)
        self._height = max(self._height, bottom)

    def svg(self) -> str:
        """Returns the file's content."""
        height = self._height + 10
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self._width} {height:g}" role="img">',
                f"<title>{html.escape(self._title)}</title>",
                f"<style>{_STYLE}</style>",
                '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
                'orient="auto-start-reverse"><path class="tip" d="M0 0 L10 5 L0 10 z"/></marker></defs>',
                *self._parts,
                "</svg>\n",
            ]
        )


def cluster() -> Drawing:
    """Returns the picture of a cluster."""
    drawing = Drawing("Two ps hold the variables; three workers pull values from both and push gradients to both.")
    for index, note in enumerate(("variables, slots,", "variables, slots")):
        drawing.box(40 + 170 * index, 10, 150, 64, "ps", f"ps:{index}", note, *(["global step"] if index == 0 else []))
    for worker, notes in enumerate((("chief:", "checkpoints"), ("share 1", "of the data"), ("share 2", "of the data"))):
        drawing.box(10 + 130 * worker, 190, 120, 66, "box", f"worker:{worker}", *notes)
        for ps in range(2):
            drawing.arrow((95 + 170 * ps + 20 * worker, 76), (56 + 130 * worker + 24 * ps, 188), both=True)
    drawing.text(10, 284, "down: values of the variables (pull)", "note")
    drawing.text(10, 302, "up: gradients (push)", "note")
    return drawing


_SECS = 30.0
_LEFT, _RIGHT = 84.0, WIDTH - 10.0
_WORKERS = 3


def step_secs(worker: int, step: int) -> float:
    """Returns the time of a step: each worker has a slow one now and then, and the last worker is a little slower."""
    return 2.0 + (0.5 if worker == _WORKERS - 1 else 0.0) + (2.5 if (step + 2 * worker) % 5 == 1 else 0.0)


def timelines(may_begin: Callable[[int, list[int]], bool]) -> list[list[tuple[float, float]]]:
    """Returns begin and end of each step of each worker.

    Args:
      may_begin: whether a worker with so many finished steps may begin the next one, given the steps of all.
    """
    found: list[list[tuple[float, float]]] = [[] for _ in range(_WORKERS)]
    tick = 0.1
    for now in (tick * number for number in range(int(_SECS / tick))):
        done = [sum(end <= now + 1e-9 for _, end in steps) for steps in found]
        for worker, steps in enumerate(found):
            finished = done[worker]
            if finished == len(steps) and may_begin(finished, done):
                steps.append((now, now + step_secs(worker, finished)))
    return found


def _is_sync(finished: int, done: list[int]) -> bool:
    return finished == min(done)


def _is_within_two(finished: int, done: list[int]) -> bool:
    return finished - min(done) < 2


def modes() -> Drawing:
    """Returns the picture of the three update modes."""
    drawing = Drawing("Steps of three workers over time under async, bounded and sync: under sync they wait the most.")
    y = 20.0
    scale = (_RIGHT - _LEFT) / _SECS
    for title, note, rule in (
        ("async", "no worker waits", lambda finished, done: True),
        ("bounded", "waits if 2 steps ahead of the slowest worker", _is_within_two),
        ("sync", "each step waits for all workers", _is_sync),
    ):
        drawing.text(10, y, title, "bold")
        drawing.text(_LEFT, y, note, "note")
        for worker, steps in enumerate(timelines(rule)):
            top = y + 8 + 20 * worker
            drawing.text(10, top + 13, f"worker:{worker}", "note")
            at = 0.0
            for number, (begin, end) in enumerate(steps):
                if begin - at > 0.2:
                    drawing.bar(_LEFT + at * scale, top, (begin - at) * scale, "wait")
                at = min(end, _SECS)
                drawing.bar(_LEFT + begin * scale, top, (at - begin) * scale, "other" if number % 2 else "step")
            if _SECS - at > 0.2:
                drawing.bar(_LEFT + at * scale, top, (_SECS - at) * scale, "wait")
        y += 94
    drawing.legend(y - 8, ("step", "a step"), ("other", "the next one"), ("wait", "waits"))
    drawing.text(_RIGHT, y + 5, "time →", "note", "end")
    return drawing


def local() -> Drawing:
    """Returns the picture of local steps."""
    drawing = Drawing("Two workers pull, make four steps each on their own values, and push what these have changed.")
    tops, round_width, step = (30, 60), 150, 28
    for worker, top in enumerate(tops):
        drawing.text(10, top + 13, f"worker:{worker}", "note")
    drawing.text(10, 121, "ps:0", "note")
    for number in range(2):
        left = _LEFT + 10 + number * round_width
        for top in tops:
            for local_step in range(4):
                drawing.bar(left + local_step * step, top, step, "other" if local_step % 2 else "step")
            drawing.arrow((left, 108), (left, top + 16))
            drawing.arrow((left + 4 * step, top + 16), (left + 4 * step + 6, 108))
        drawing.bar(left + 4 * step + 2, 108, 22, "done")
        drawing.text(left + 2 * step, 20, f"round {number + 1}", "note", "middle")
    drawing.legend(140, ("step", "a local step"), ("other", "the next one"), ("done", "outer update"))
    drawing.text(10, 176, "Up: the values.  Down: what the steps have changed.", "note")
    return drawing


def save() -> Drawing:
    """Returns the picture of a checkpoint."""
    drawing = Drawing(
        "A save holds the pushes while each ps copies its state; the file is written while training runs."
    )
    names = ("worker:0", "worker:1", "ps:0", "ps:1")
    tops = [26 + 24 * number for number in range(len(names))]
    begin, end, written = 190, 220, 345
    for name, top in zip(names, tops, strict=True):
        drawing.text(10, top + 13, name, "note")
    for worker in range(2):
        starts = [84 + 10 * worker + 35 * step for step in range(9)]
        for number, start in enumerate(starts):
            stop = start + 35
            kind = "other" if number % 2 else "step"
            if stop <= begin or start >= end:
                drawing.bar(start, tops[worker], min(stop, _RIGHT) - start, kind)
            else:
                drawing.bar(start, tops[worker], max(begin - start, 0), kind)
                drawing.bar(max(begin, start), tops[worker], min(end, stop) - max(begin, start), "wait")
                drawing.bar(end, tops[worker], max(stop - end, 0), kind)
    for top in tops[2:]:
        drawing.bar(begin, top, end - begin, "alarm")
        drawing.bar(end, top, written - end, "done")
    drawing.text(begin - 6, 18, "step 1,000", "note", "end")
    drawing.arrow((begin, 8), (begin, 128))
    y = 140
    drawing.legend(y, ("step", "steps"), ("wait", "pushes wait"), ("alarm", "copy"), ("done", "write the file"))
    drawing.text(10, y + 36, "All copies are from the same step.  The file names it.", "note")
    return drawing


def recovery() -> Drawing:
    """Returns the picture of a recovery."""
    drawing = Drawing(
        "A ps dies and is started again; the chief restores the newest checkpoint and training continues."
    )
    tops = {name: 30 + 24 * number for number, name in enumerate(("worker:0", "worker:1", "ps:0", "ps:1"))}
    for name, top in tops.items():
        drawing.text(10, top + 13, name, "note")
    dies, back, ready = 170.0, 240.0, 290.0
    for worker in ("worker:0", "worker:1"):
        for number in range(3):
            start = 84 + number * 29
            drawing.bar(start, tops[worker], min(29, dies - start), "other" if number % 2 else "step")
        drawing.bar(dies, tops[worker], ready - dies, "wait")
        for number in range(3):
            start = ready + number * 33
            drawing.bar(start, tops[worker], 33, "other" if number % 2 else "step")
    drawing.bar(84, tops["ps:0"], dies - 84, "step")
    drawing.bar(dies, tops["ps:0"], ready - dies, "wait")
    drawing.bar(back + 20, tops["ps:0"], ready - back - 20, "done")
    drawing.bar(ready, tops["ps:0"], _RIGHT - ready, "step")
    drawing.bar(84, tops["ps:1"], dies - 84, "step")
    drawing.bar(dies, tops["ps:1"], back - dies, "alarm")
    drawing.bar(back, tops["ps:1"], ready - back, "done")
    drawing.bar(ready, tops["ps:1"], _RIGHT - ready, "step")
    drawing.text(132, 20, "checkpoint", "note", "end")
    drawing.arrow((113, 24), (113, 124))
    drawing.text(dies - 20, 20, "ps:1 dies", "note")
    drawing.text(back - 6, 20, "starts again", "note")
    y = 138
    drawing.legend(y, ("step", "training"), ("wait", "waits"), ("alarm", "dead"), ("done", "restore"))
    drawing.text(10, y + 36, "Steps after the checkpoint are made again.  Processes stay.", "note")
    return drawing


def delta() -> Drawing:
    """Returns the picture of a day with deltas."""
    drawing = Drawing("A job writes a whole export once and then small deltas, which the serving hosts apply.")
    drawing.box(10, 10, 180, 50, "ps", "training", "--delta_every_secs=3600")
    for number, (name, note) in enumerate(
        (("00:00 export", "the whole model"), ("01:00 delta", "changed rows"), ("02:00 delta", "changed rows"))
    ):
        drawing.box(10, 90 + 62 * number, 150, 50, "done" if number == 0 else "box", name, note)
        drawing.arrow((160, 115 + 62 * number), (238, 115 + 62 * number))
        drawing.box(
            240,
            90 + 62 * number,
            150,
            50,
            "done" if number == 0 else "box",
            *(("server: load", "once") if number == 0 else ("server: apply", "while it serves")),
        )
    drawing.arrow((85, 60), (85, 88))
    drawing.arrow((85, 140), (85, 150))
    drawing.arrow((85, 202), (85, 212))
    drawing.text(199, 108, "copy", "note", "middle")
    drawing.text(10, 288, "A delta names the model that it follows: a gap is noticed.", "note")
    return drawing


def racks() -> Drawing:
    """Returns the picture of racks."""
    drawing = Drawing("The workers of a rack add up their gradients; one of them sends the sum to the ps.")
    drawing.box(125, 10, 150, 44, "ps", "ps", "variables")
    for rack in range(2):
        left = 10 + 200 * rack
        drawing.box(left, 130, 180, 150, "wait")
        drawing.text(left + 8 + 164 * rack, 148, f"--rack=r{rack}", "bold", "end" if rack else "start")
        drawing.box(left + 50, 160, 80, 34, "done", f"worker:{3 * rack}")
        for member in (1, 2):
            x = left + 12 + 80 * (member - 1)
            drawing.box(x, 234, 76, 34, "box", f"worker:{3 * rack + member}")
            drawing.arrow((x + 38, 232), (left + 90, 196), both=True)
        drawing.arrow((left + 90, 158), (150 + 100 * rack, 56), both=True)
    for number, line in enumerate(("slow network:", "one sum up,", "values down")):
        drawing.text(200, 84 + 16 * number, line, "note", "middle")
    drawing.text(10, 302, "Inside a rack: every worker, over the fast network.", "note")
    return drawing


_PROCESS = (
    ("parse", "flags: *_fields.py", "refused pairs:", "config/refusals.py"),
    ("check", "model, directory,", "port; without", "TensorFlow"),
    ("import", "TensorFlow", "is imported", "once"),
    ("run a role", "ps, worker, chief:", "training/duties/", "lists.py"),
    ("exit", "a code, and the", "cause in one line", ""),
)
_WORDS = ("layout", "batches", "pull", "compute", "push", "update", "calls")
_PARTS = DOCS.parent / "ps_train" / "engine" / "step" / "parts"


def parts_of_words() -> dict[str, list[str]]:
    """Returns for each word of a step the files of the parts that wrap it."""
    found: dict[str, list[str]] = {word: [] for word in _WORDS}
    for path in sorted(_PARTS.glob("*.py")):
        for word in _WORDS if path.stem != "step_part" else ():
            if re.search(rf"^    def {word}\(self, {word}:", path.read_text(), re.MULTILINE):
                found[word].append(path.stem)
    return found


_DUTIES = (
    ("a session opens", "first values, recovery,", "warm start, feeds,", "rounds, racks"),
    ("the loop pauses", "saving, members,", "progress, event cuts,", "profiles"),
    ("a session is lost", "saving, feeds;", "held residuals", "are parked"),
    ("the job ends", "final evaluation,", "exports, deltas,", "trackers"),
)


def architecture() -> Drawing:
    """Returns the picture of the developers' page: where a feature enters."""
    drawing = Drawing("The life of a process, the way of a step, and the places where features enter them.", 800)

    def row(y: float, title: str, note: str, boxes: Sequence[tuple[str, Sequence[str]]], height: float) -> None:
        drawing.text(10, y, title, "bold")
        drawing.text(790, y, note, "note", "end")
        each = 800 / len(boxes)
        for number, (kind, lines) in enumerate(boxes):
            x = 10 + each * number
            drawing.box(x, y + 10, each - 20, height, kind, *lines)
            if number and kind != "done":
                drawing.arrow((x - 18, y + 10 + height / 2), (x - 3, y + 10 + height / 2))

    words = parts_of_words()
    most = max(map(len, words.values()))
    padded = [(word, *files, *[""] * (most - len(files))) for word, files in words.items()]
    height = 18 * most + 32
    row(20, "The life of a process", "", [("box", lines) for lines in _PROCESS], 84)
    row(
        150,
        "The way of a step",
        "parts: engine/step/parts/",
        [("ps" if w[0] == "update" else "box", w) for w in padded],
        height,
    )
    drawing.text(
        10,
        178 + height,
        "Blue: on the ps, under its lock; the others are on the worker.  Below each word: the parts that change it.",
        "note",
    )
    y = 216 + height
    row(y, "Beside the steps", "duties: training/duties/", [("box", lines) for lines in _DUTIES], 84)
    shown = ("status page", "/api/status", "Prometheus", "result.json")
    row(y + 130, "What is shown", "displays: training/tasks/displays.py", [("done", (name,)) for name in shown], 30)
    return drawing


DRAWINGS: dict[str, Callable[[], Drawing]] = {
    "cluster": cluster, "modes": modes, "save": save, "recovery": recovery, "delta": delta, "racks": racks,
    "local": local,
    "dev/architecture": architecture,
}  # fmt: skip
"""Name of a file to the function that draws it."""


def main(arguments: list[str]) -> int:
    """Writes all drawings, or compares them; returns the exit code."""
    stale = []
    for name, draw in DRAWINGS.items():
        path, content = DOCS / f"{name}.svg", draw().svg()
        if arguments != ["--check"]:
            path.write_text(content)
        elif not path.exists() or path.read_text() != content:
            stale.append(str(path))
    if stale:
        print(f"{', '.join(stale)}: run python scripts/drawings.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
