"""What a policy sees, and what becomes of its answer."""

import numpy as np
import pytest

import pausefl
from pausefl.errors import InvalidValueError, UnknownClientError, UserCodeError
from pausefl.privacy import FixedHorizon
from pausefl.selection import Candidates, Fastest, Objective
from pausefl.selector import Selector

COLUMNS = ("ucb", "score", "mean_speed", "speed_bonus", "budget_left", "picks", "releases", "sizes")


class Answering(pausefl.Policy):
    """Returns what it is told to, and keeps what it has seen."""

    name = "answering"

    def __init__(self, answer: object = None, size: str = "exactly m") -> None:
        self.answer, self.size, self.seen = answer, size, None

    def pick(self, candidates: Candidates) -> object:
        self.seen = candidates
        return self.answer(candidates) if callable(self.answer) else self.answer


@pytest.mark.parametrize("answer", [np.array([1, 3]), [3, 1], np.array([3, 1], dtype=np.uint8), [np.int64(1), 3]])
def test_positions_are_an_array_or_a_list(answer: object) -> None:
    chosen = Selector({"a": 1, "b": 1, "c": 1, "d": 1}, 2, Answering(answer)).select()
    assert chosen.members == ("b", "d")
    assert chosen.weights is None


def test_a_pair_is_positions_and_weights() -> None:
    chosen = Selector({"a": 1, "b": 1, "c": 1}, 2, Answering(([2, 0], [0.25, 0.75]))).select()
    assert chosen.weights == {"a": 0.75, "c": 0.25}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (np.array([0, 0]), "returned [0, 0], but must return an array or a list of exactly m distinct positions"),
        (np.array([0]), "returned [0], "),
        ([-1, 0], "returned [-1, 0], "),
        ([0, 9], "returned [0, 9], "),
        ([], "returned a list ([]), "),
        ([True, False], "returned a list ([True, False]), "),
        ([0.0, 1.0], "returned a list ([0.0, 1.0]), "),
        (np.zeros((2, 1), dtype=int), "returned a ndarray"),
        (None, "returned a NoneType (None), "),
        ((0, 1), "returned a int (0), "),
        ((0, 1, 2), "returned a tuple ((0, 1, 2)), "),
        ({0, 1}, "returned a set ({0, 1}), "),
        (([0, 1], [0.5, 0.6]), "returned weights [0.5, 0.6], but must return 2 above 0 that sum to 1"),
        (([0, 1], [1.0]), "returned weights [1.0], "),
        (([0, 1], [0.0, 1.0]), "returned weights [0.0, 1.0], "),
        (([0, 1], [float("nan"), 1.0]), "returned weights [nan, 1.0], "),
        (([0, 1], "ab"), "returned weights ab, "),
        (lambda seen: seen.objective.solution(np.array([0, 1])), "returned a Solution, but must return positions"),
    ],
)
def test_an_answer_that_breaks_the_contract_is_refused_in_one_line(answer: object, said: str) -> None:
    sel = Selector(np.ones(4), 2, Answering(answer))
    with pytest.raises(InvalidValueError) as refused:
        sel.select()
    assert str(refused.value).startswith(f"policy 'answering' {said}")
    assert "\n" not in str(refused.value)
    assert sel.pending is None


@pytest.mark.parametrize(("size", "answer"), [("all", [0, 1]), ("at most m", [0, 1, 2]), ("at most m", [])])
def test_the_size_of_a_choice_is_what_the_policy_promised(size: str, answer: list[int]) -> None:
    with pytest.raises(InvalidValueError, match=f"{size} distinct positions"):
        Selector(np.ones(4), 2, Answering(answer, size)).select()


def test_an_exception_inside_a_policy_is_one_line_with_its_file_and_line() -> None:
    def broken(candidates: Candidates) -> object:
        return candidates.nothing

    with pytest.raises(UserCodeError) as refused:
        Selector(np.ones(4), 2, Answering(broken)).select()
    line = broken.__code__.co_firstlineno + 1
    assert "policy 'answering' failed in pick() (AttributeError: " in str(refused.value)
    assert f"test_checks.py:{line})" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert isinstance(refused.value.__cause__, AttributeError)


def test_what_our_own_policies_refuse_stays_as_it_is() -> None:
    with pytest.raises(UnknownClientError, match="must have an expected latency"):
        Selector({"a": 1, "b": 1}, 1, Fastest({"a": 0.1})).select()


def test_a_policy_that_fails_to_learn_leaves_no_phantom_picks() -> None:
    class Forgetful(Answering):
        def learn(self, rows: object, updates: object) -> None:
            raise RuntimeError("no")

    sel = Selector(np.ones(4), 2, Forgetful([0, 1]))
    sel.select()
    with pytest.raises(UserCodeError, match=r"failed in learn\(\) \(RuntimeError: no, at .*test_checks.py:"):
        sel.observe({0: 0.1, 1: 0.1}, updates={0: np.ones(3)})
    assert sel.cohort.picks.sum() == 0


def seen_after(rounds: int, available: list[str] | None = None) -> tuple[Candidates, Selector]:
    policy = Answering(lambda candidates: list(range(candidates.m)))
    sel = Selector(
        {"a": 10, "b": 20, "c": 30, "d": 40}, 2, policy, schedule=FixedHorizon(8.0, 4), tau_min=0.1, zeta=2.0,
    )  # fmt: skip
    for _ in range(rounds):
        sel.select(["a", "b"])
        sel.observe({"a": 0.2, "b": None})
    sel.join({"b": 20})  # so that it does not wait
    sel.report({"d": 3})
    sel.select(available)
    assert policy.seen is not None
    return policy.seen, sel


def test_columns_say_what_is_known_of_each_candidate() -> None:
    seen, _ = seen_after(3)
    assert (seen.m, seen.round_number, seen.ids) == (2, 4, ["a", "b", "c", "d"])
    assert seen.mean_speed.tolist() == pytest.approx([0.5, 0.0, 0.0, 0.0])
    bonus = np.sqrt(3 * np.log(3) / np.array([3, 1]))  # three silences in a row are one outage
    assert seen.speed_bonus.tolist() == pytest.approx([*bonus, np.inf, np.inf])
    assert seen.ucb.tolist() == (2.0 * seen.mean_speed + seen.speed_bonus).tolist()
    assert seen.budget_left.tolist() == pytest.approx([0.25, 0.25, 1.0, 0.25], abs=1e-6)
    assert seen.picks.tolist() == [3, 3, 0, 0]
    assert seen.releases.tolist() == [3, 3, 0, 3]
    assert seen.sizes.tolist() == [10.0, 20.0, 30.0, 40.0]
    assert seen.available.tolist() == [True] * 4
    gap = 2 * np.array([0.1, 0.2, 0.3, 0.4]) - seen.picks / 3
    worth = 100.0 * np.sign(gap) * gap**2 + 5.0 * seen.budget_left
    assert seen.score.tolist() == pytest.approx((worth / 2).tolist())


def test_what_is_known_without_a_round_counts_in_the_bonus_and_not_in_the_picks() -> None:
    _, sel = seen_after(3)
    sel.expect({"a": 0.2, "c": 0.4})
    sel.select()
    seen = sel.policy.seen
    assert seen.picks.tolist() == [3, 3, 0, 0]
    assert seen.speed_bonus.tolist() == pytest.approx([*np.sqrt(3 * np.log(3) / np.array([4, 1, 1])), np.inf])
    assert seen.ucb.tolist() == (2.0 * seen.mean_speed + seen.speed_bonus).tolist()


def test_columns_are_those_of_the_available_clients() -> None:
    seen, sel = seen_after(3, ["d", "b"])
    everybody = seen_after(3)[0]
    assert seen.ids == ["b", "d"]
    assert seen.available.tolist() == [False, True, False, True]
    for name in COLUMNS:
        assert getattr(seen, name).tolist() == getattr(everybody, name)[[1, 3]].tolist(), name
    assert sel.cohort.picks.tolist() == [3, 3, 0, 0]


@pytest.mark.parametrize("available", [None, ["a", "b", "c"]])
@pytest.mark.parametrize("name", [*COLUMNS, "available"])
def test_columns_are_read_only(name: str, available: list[str] | None) -> None:
    column = getattr(seen_after(1, available)[0], name)
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 1


@pytest.mark.parametrize("available", [None, ["a", "b", "c"]])
def test_rows_and_objective_are_read_only(available: list[str] | None) -> None:
    policy = Answering(lambda candidates: [0])
    sel = Selector({"a": 1, "b": 1, "c": 1, "d": 1}, 1, policy, clusters=[0, 0, 1, 1], rho=0.1)
    sel.select(available)
    seen = policy.seen
    for column in (seen.rows, seen.objective.ucb, seen.objective.score, seen.objective.clusters):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


@pytest.mark.parametrize("raised", [SystemExit(0), SystemExit("bye"), BaseException("odd")])
def test_a_policy_cannot_end_the_program(raised: BaseException) -> None:
    def leaves(candidates: Candidates) -> object:
        raise raised

    with pytest.raises(UserCodeError, match=f"{type(raised).__name__}.*, at .*test_checks.py:"):
        Selector(np.ones(4), 2, Answering(leaves)).select()


def test_the_user_can_end_the_program() -> None:
    def interrupted(candidates: Candidates) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Selector(np.ones(4), 2, Answering(interrupted)).select()


def test_columns_are_worked_out_once_and_only_when_asked_for() -> None:
    asked = []
    seen = Candidates(
        objective=Objective(np.ones(2), np.ones(2), 1), rows=np.arange(2), all_ids=["a", "b"], set_range=1.0,
        round_number=1, columns={"sizes": lambda: asked.append("sizes") or np.ones(2)}, tickets=lambda at: at,
        stream=lambda name: np.random.default_rng(0),
    )  # fmt: skip
    assert asked == []
    assert seen.sizes is seen.sizes
    assert asked == ["sizes"]
