"""Whether PAUSE has chosen yet: counted by the clients that were there, who come and go."""

from typing import Any

import numpy as np
import pytest

from pausefl.runs.build import build
from pausefl.runs.config import make_config
from pausefl.runs.run_data import RunData
from pausefl.studies.evidence import still_exploring

PER_ROUND, ROUNDS = 5, 40


def played(clients: int, network: dict[str, Any], seed: int) -> tuple[RunData, list[int]]:
    """Play without training; return the run, and how many members of each round the selector had timed before."""
    config = make_config({
        "network": {"clients": clients, **network}, "selection": {"per_round": PER_ROUND},
        "learning": {"enabled": False}, "run": {"rounds": ROUNDS, "seed": seed},
    })  # fmt: skip
    simulation, records, known = build(config), [], []
    for _ in range(ROUNDS):
        timed = simulation.selector.cohort.timings > 0
        records.append(simulation.step())
        known.append(int(timed[records[-1]["members"]].sum()))
    return RunData("pause", config, records, None), known


def explores(run: RunData, rounds: int) -> bool:
    return still_exploring([(run, run)], "round", rounds)


@pytest.mark.parametrize("clients", [5, 12, 30, 32])
def test_where_everybody_is_there_pause_chooses_as_soon_as_it_has_tried_all(clients: int) -> None:
    run, _ = played(clients, {}, seed=0)
    tried = -(-clients // PER_ROUND)
    assert [explores(run, n) for n in range(1, ROUNDS + 1)] == [n <= tried for n in range(1, ROUNDS + 1)]


def test_clients_that_have_not_joined_need_not_be_tried() -> None:
    """Half of 30 clients join by round 1,000: the others are tried after 3 rounds, and not after 6."""
    run, _ = played(30, {"late": 0.5, "late_by": 1000}, seed=0)
    assert [explores(run, n) for n in (3, 4, 6)] == [True, False, False]


def test_taking_everybody_who_is_there_is_no_choice() -> None:
    """About one of 30 clients is there at a time: after 7 rounds most were never tried, and nobody is ever left out."""
    run, known = played(30, {"availability": "bernoulli", "probability": 0.03}, seed=0)
    assert max(len(record["members"]) for record in run.records) < PER_ROUND < sum(known)
    assert [explores(run, n) for n in (7, ROUNDS)] == [True, True]


def test_after_a_rehearsal_pause_chooses_from_the_first_round_on() -> None:
    run, _ = played(30, {"rehearsal": True}, seed=0)
    assert not explores(run, 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "network",
    [
        {"availability": "bernoulli", "probability": 0.6},
        {"availability": "on-off", "leave": 0.2, "back": 0.2},
        {"late": 0.8, "late_by": 20},
        {"dropout": 0.3},
        {"straggle": 0.3, "deadline": 2.0, "availability": "bernoulli", "probability": 0.7},
    ],
)
def test_what_the_records_say_is_what_the_selector_knew(network: dict[str, Any], seed: int) -> None:
    """As many known members as a round has, in rounds with a full set, are a choice."""
    run, known = played(30, network, seed)
    full = [len(record["members"]) >= PER_ROUND for record in run.records]
    chosen = np.cumsum(np.where(full, known, 0)) >= PER_ROUND
    assert [not explores(run, n) for n in range(1, ROUNDS + 1)] == chosen.tolist()
    assert chosen[-1]
