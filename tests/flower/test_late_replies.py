"""Rounds that close before everybody has answered: who is asked, when they close, and what becomes of late replies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

import pausefl
from pausefl.errors import InvalidValueError
from pausefl.flower import Checkpoint, PauseStrategy
from pausefl.flower.server.late_replies import LateReply
from pausefl.flower.server.replies import Verdict
from pausefl.flower.server.training_rounds import Plan, play
from pausefl.flower.testing import MemoryGrid
from pausefl.privacy import FixedHorizon
from pausefl.selector.deadline import Deadline


def adding(amount: float, tools: Any, note: dict[str, Any] | None = None) -> Any:
    """A node that adds so much to every number."""

    def node(message: Message) -> Message:
        arrays = {name: array.numpy() + np.float32(amount) for name, array in message.content["arrays"].items()}
        content: dict[str, Any] = {"arrays": tools.record(arrays), "metrics": MetricRecord({"num-examples": 40})}
        if note is not None:
            content["pausefl"] = ConfigRecord(note)
        return Message(RecordDict(content), reply_to=message)

    return node


class Game:
    """Nodes 0, 1, 2, … that answer after so many seconds of a clock that only sleeping moves; None is never."""

    def __init__(
        self, tools: Any, seconds: list[float | None], amounts: list[float] | None = None, **more: Any
    ) -> None:
        self.clock = tools.Clock()
        count = len(seconds)
        notes = more.pop("notes", [None] * count)
        nodes = {
            n: tools.after(
                self.clock,
                np.inf if taken is None else taken - 0.05,
                adding((amounts or [1.0] * count)[n], tools, note),
            )
            for n, (taken, note) in enumerate(zip(seconds, notes, strict=True))
        }
        self.grid = MemoryGrid(nodes)
        self.selector = more.pop("chooser", None) or pausefl.Selector([1.0] * count, 2, tau_min=0.05)
        inner = more.pop("inner", None) or FedAvg(fraction_evaluate=0.0)
        self.strategy = PauseStrategy(inner, self.selector, names="node", wait=0.2, poll=0.1, **more)
        self.timed = tools.timed({}, self.clock)
        self.timed.grid = self.grid

    def play(self, tools: Any, rounds: int, timeout: float = 30.0) -> Any:
        strategy = self.strategy
        strategy._timed = self.timed
        strategy._begin(self.grid, tools.record({"w": np.zeros(3, dtype=np.float32)}))
        plan = Plan(rounds, timeout, ConfigRecord(), ConfigRecord(), None)
        return play(strategy, self.timed, strategy._state, plan).arrays["w"].numpy()[0]


def test_more_are_asked_and_the_first_ones_close_the_round(tools: Any) -> None:
    game = Game(tools, [0.2, 0.3, 5.0], over_select=1.5)
    game.play(tools, 1)
    [played] = game.strategy.history
    assert played.members == (0, 1, 2) and set(played.seconds) == {"0", "1"}
    assert (played.late, played.refused) == (("2",), {})
    assert played.took == pytest.approx(0.3)
    assert "not waited for: 2" in played.line()
    cohort = game.selector.cohort
    assert cohort.picks.tolist() == [1, 1, 1] and cohort.timings.tolist() == [1, 1, 0]
    assert cohort.silences.tolist() == [0, 0, -1]  # late once: it stays a candidate, and nothing is known of its speed


def test_an_unsound_answer_does_not_close_a_round(tools: Any) -> None:
    game = Game(tools, [0.1, 0.2, 0.4], amounts=[np.nan, 1.0, 1.0], over_select=1.5)
    game.play(tools, 1)
    [played] = game.strategy.history
    assert set(played.seconds) == {"1", "2"} and played.refused == {"0": "unsound"}


@pytest.mark.parametrize(("close_after", "took"), [(1, 0.2), (2, 0.4), (None, 0.9)])
def test_a_round_closes_after_so_many(close_after: int | None, took: float, tools: Any) -> None:
    chooser = pausefl.Selector([1.0] * 3, 3)
    game = Game(tools, [0.2, 0.4, 0.9], chooser=chooser, close_after=close_after)
    game.play(tools, 1)
    assert game.strategy.history[0].took == pytest.approx(took)


def test_no_round_is_longer_than_its_deadline(tools: Any) -> None:
    game = Game(tools, [0.2, None, 0.3, 0.2], deadline=1.0)
    game.play(tools, 6, timeout=600.0)
    assert all(played.took <= 1.1 for played in game.strategy.history)
    cut = [played for played in game.strategy.history if "1" in played.late]
    assert cut and all(played.refused["1"] == "no answer" for played in cut)
    assert len(cut) <= 3  # and it waits longer each time
    long = Game(tools, [0.2, None], deadline=9.0)
    long.play(tools, 1, timeout=2.0)
    assert long.strategy.history[0].took == pytest.approx(2.0, abs=0.11)  # never more than Flower's timeout


def test_a_deadline_is_learned(tools: Any, tmp_path: Path) -> None:
    seconds: list[float | None] = [0.2, 0.2, 0.2, 0.2, 0.2, None]
    chooser = pausefl.Selector([1.0] * 6, 6, "all")
    game = Game(tools, seconds, chooser=chooser, deadline=Deadline(0.5, 3.0), checkpoint=tmp_path / "run.state")
    game.play(tools, 3, timeout=50.0)
    assert [played.took for played in game.strategy.history] == pytest.approx([50.0, 0.2, 0.6], abs=0.11)
    again = Deadline(0.5, 3.0)
    more = Game(tools, seconds, chooser=pausefl.Selector([1.0] * 6, 6, "all"), deadline=again,
                checkpoint=tmp_path / "run.state")  # fmt: skip
    more.play(tools, 3)
    assert again.seconds == game.strategy._deadline.seconds  # type: ignore[union-attr]


def test_what_a_deadline_is() -> None:
    deadline = Deadline(0.9, 2.0)
    deadline.learn([1.0] * 4)
    assert deadline.seconds is None
    deadline.learn([1.0] * 16)
    assert deadline.seconds == 2.0
    deadline.learn([], missed=5)
    assert deadline.seconds == 4.0  # too many missed it
    deadline.learn([0.5] * 500)
    assert deadline.seconds == 1.0
    for wrong in ({"quantile": 0.0}, {"quantile": 1.1}, {"slack": 0.9}, {"slack": np.nan}):
        with pytest.raises(InvalidValueError):
            Deadline(**wrong)


def test_a_late_reply_is_counted_or_its_update_is_used(tools: Any) -> None:
    """Round 1 makes 1 of 0; in round 2 both make 2 of it, and the late one, which added 7 to 0, makes 8 of it."""
    models = {}
    for late in ("waste", "use"):
        game = Game(tools, [0.2, 0.2, 0.3], amounts=[1.0, 1.0, 7.0], over_select=1.5, late=late)
        models[late] = game.play(tools, 2)
        first, second = game.strategy.history
        assert first.late == ("2",) and second.members == (0, 1, 2)  # late once, it stays a candidate
        assert game.selector.cohort.seconds[2] == pytest.approx(0.3)  # measured, though it came in another round
        assert game.selector.cohort.silences[2] == 0
        if late == "use":
            assert (second.used, second.wasted) == ({"2": 0.5}, ())
            assert "2 came late and counts 0.5" in second.line()
        else:
            assert (second.used, second.wasted) == ({}, (("2", 1),))
            assert "2 spent budget for nothing in round 1" in second.line()
            assert second.metrics()["pausefl-wasted"] == 1
    assert models == {"waste": pytest.approx(2.0), "use": pytest.approx((2 * 40 + 2 * 40 + 8 * 20) / 100)}


def test_a_late_update_is_added_to_the_current_model(tools: Any) -> None:
    """Where replies are not weighed the update is made smaller instead; counters stay as they are now."""
    old, now, sent = (
        tools.record({"w": np.full(2, value, dtype=np.float32), "steps": np.array([count])})
        for value, count in ((1.0, 3), (5.0, 8), (4.0, 4))
    )
    for scale, expected in ((1.0, 8.0), (0.5, 6.5)):
        reply = Message(RecordDict({"arrays": sent, "metrics": MetricRecord({"num-examples": 1})}), 7, "train")
        late = LateReply(Verdict("a", reply=reply), node=7, staleness=1, model=old).rebased(now, scale)
        assert late.arrays["w"].numpy().tolist() == [expected] * 2
        assert late.arrays["w"].numpy().dtype == np.float32
        assert late.arrays["steps"].numpy().tolist() == [8]


def test_a_late_client_is_believed_about_its_budget(tools: Any) -> None:
    notes = [{"name": str(n), "releases": 1, "left": 0.75} for n in range(3)]
    notes[2] = {"name": "2", "releases": 4, "left": 0.25}
    chooser = pausefl.Selector([1.0] * 3, 2, schedule=FixedHorizon(8.0, 8), tau_min=0.05)
    game = Game(tools, [0.2, 0.2, 0.3], notes=notes, over_select=1.5, chooser=chooser)
    game.play(tools, 2)
    assert chooser.cohort.releases[2] == 4
    assert chooser.problem().terms().privacy[2] == pytest.approx(0.25)


def test_late_replies_of_a_server_that_died_are_reported_as_wasted(tools: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.state"

    def game() -> Game:
        return Game(tools, [0.2, 0.2, 5.0], over_select=1.5, checkpoint=path)

    first = game()
    first.strategy.end = lambda: None  # type: ignore[method-assign]  # it dies
    first.play(tools, 1)
    assert Checkpoint.read(path).state.open == [(2, 1)]
    second = game()
    second.play(tools, 2)
    assert second.strategy.history[1].wasted == (("2", 1),)
    assert Checkpoint.read(path).history[1].wasted == (("2", 1),)
    assert [played.late for played in Checkpoint.read(path).history] == [("2",), ("2",)]


def test_the_first_answer_of_a_node_is_provisional(tools: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.state"
    slow = Game(tools, [3.0, 3.0], checkpoint=path)
    slow.play(tools, 1)
    assert slow.selector.cohort.seconds.tolist() == pytest.approx([3.0, 3.0])
    quick = Game(tools, [0.2, 0.2], checkpoint=path)  # the same nodes, warm by now, after a restart of the server
    quick.play(tools, 3)
    assert quick.selector.cohort.seconds.tolist() == pytest.approx([0.2, 0.2])
    assert quick.selector.cohort.timings.tolist() == [2, 2]


@pytest.mark.parametrize(
    "wrong", [{"over_select": 0.9}, {"over_select": np.inf}, {"close_after": 0}, {"close_after": 1.5},
              {"deadline": 0.0}, {"deadline": "soon"}, {"late": "keep"}],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], tools: Any) -> None:
    with pytest.raises(InvalidValueError, match=f"{next(iter(wrong))} is"):
        Game(tools, [0.2, 0.2], **wrong)
