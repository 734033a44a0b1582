"""A policy looks the same everywhere, and no two look alike."""

from pausefl.report.policy_looks import KNOWN, OTHERS, looks, ordered


def test_no_two_looks_agree_in_colour_or_in_both_dash_and_marker() -> None:
    every = [*KNOWN.values(), *OTHERS]
    assert len({look.colour for look in every}) == len(every)
    assert len({(look.dash, look.shape) for look in every}) == len(every)


def test_a_known_policy_never_changes_and_an_unknown_one_only_steps_aside_for_another() -> None:
    for beside in ([], ["random"], ["all", "fastest", "sa-pause"]):
        assert looks(["pause", "mine:Policy", *beside])["pause"] == KNOWN["pause"]
        assert looks(["mine:Policy", *beside])["mine:Policy"] == looks(["mine:Policy"])["mine:Policy"]


def test_as_many_unknown_policies_as_there_are_looks_stay_apart() -> None:
    names = [f"mine-{i}" for i in range(len(OTHERS))]
    assert len(set(looks(names).values())) == len(OTHERS)
    assert looks(names) == looks(reversed(names))
    many = looks([f"mine-{i}" for i in range(20)]).values()
    assert len({(look.colour, look.shape) for look in many}) == 20


def test_a_bound_has_the_colour_of_its_curve_whatever_stands_beside_it() -> None:
    curves = ["speed alone", "paper's weights"]
    both = looks([*curves, *(f"bound, {name}" for name in curves)])
    for name in curves:
        assert both[name] == looks(curves)[name]
        assert both[f"bound, {name}"].colour == both[name].colour
    assert len({(look.colour, look.shape) for look in both.values()}) == 4
    for name in KNOWN:
        known, bound = looks([name, f"bound, {name}"]).values()
        assert known.shape != bound.shape


def test_readers_find_pause_first() -> None:
    assert ordered(["b", "all", "a", "pause", "random"]) == ["pause", "random", "all", "a", "b"]
