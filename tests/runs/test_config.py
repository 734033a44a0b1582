"""A run's file is validated key by key, and comes back as it was."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pausefl.errors import ConfigError
from pausefl.runs.build import build
from pausefl.runs.config import ONE_RUN, Config, differences, load_config, make_config
from pausefl.runs.read_folder import stored_config


@pytest.mark.parametrize(
    ("content", "overrides", "words"),
    [
        ({"selection": {"polcy": "pause"}}, [], "selection.polcy is not a known key; did you mean 'selection.policy'"),
        ({"slection": {}}, [], "did you mean 'selection'"),
        ({"run": {"rounds": 0}}, [], "run.rounds is 0, but must be greater than or equal to 1"),
        ({"run": {"rounds": "many"}}, [], "run.rounds is 'many'"),
        ({"data": {"name": "minst"}}, [], "data.name is 'minst'"),
        ({"selection": {"beta": 1}}, [], "selection.beta is 1, but must be greater than 1"),
        ({}, ["rounds=5"], "must look like section.key=value"),
        ({}, ["run.rounds"], "must look like section.key=value"),
        ({}, ["run.rounds=x"], "run.rounds is 'x'"),
        ({"run": 5}, [], "run is 5"),
        ({"network": {"trace": "x"}, "run": 3}, ["run.rounds=4"], "must look like"),
    ],
)
def test_bad_configurations_are_one_line(content: dict, overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_config(content, overrides)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_overrides_and_whole_numbers() -> None:
    config = make_config({"privacy": {"budget": 200}}, ["selection.alpha=7", "data.name=mnist", "network.deadline=1"])
    assert (config.privacy.budget, config.selection.alpha, config.network.deadline) == (200.0, 7.0, 1.0)
    assert config.data.name == "mnist"
    assert Config() == make_config({})


@pytest.mark.parametrize(
    "override",
    [
        "network.congestion=0.5", "selection.rho=0.1", "network.spread=5", "learning.momentum=0.9",
        "server.aggregation=matched privacy.enabled=false", "server.aggregation=matched learning.enabled=false",
        "server.step=0.5 learning.enabled=false", "server.average=0.5 learning.enabled=false",
        "privacy.account=zcdp", "network.jams=0.1", "network.jam_factor=2", "network.jam_rounds=2",
        "network.jam_factor=2 network.clusters=3", "network.drift_share=0.5", "network.drift_factor=2",
        "network.late_by=5", "network.swing=0.05", "network.period=7", "network.swing=0.05 network.availability=on-off",
        "network.slowest=2 network.latency=devices", "network.spread=0.7 network.latency=exponential",
    ],
)  # fmt: skip
def test_keys_without_effect_are_refused(override: str) -> None:
    with pytest.raises(ConfigError, match="has no effect here"):
        make_config({}, override.split())


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("selection.per_round=50", "per_round is 50, but must be at most network.clients = 30"),
        ("network.deadline=0.01", "deadline is 0.01, but must be above network.tau_min = 0.05"),
        ("privacy.unit=record", "privacy.mechanism is 'laplace', but must be 'gaussian'"),
        ("network.straggle=0.1", "straggle is 0.1, but must be 0 without network.deadline; set network.deadline"),
        (
            "network.swing=0.4 network.availability=diurnal",
            "swing is 0.4, but must be at most 0.1 with network.probability = 0.9",
        ),
    ],
)
def test_keys_that_cannot_be_met_are_refused(override: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        make_config({}, override.split())
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_the_widest_swing_is_not_refused(probability: float) -> None:
    swing = min(probability, round(1 - probability, 1))
    days = {"availability": "diurnal", "probability": probability, "swing": swing, "clients": 4}
    build(make_config({"network": days, "selection": {"per_round": 1}, "learning": {"enabled": False}})).step()


def test_configurations_come_back_as_they_were(tmp_path: Path) -> None:
    for overrides in ([], ["learning.max_steps=0", "network.deadline=2", "data.train_size=100"]):
        config = make_config({}, overrides)
        (tmp_path / "c.toml").write_text(config.toml())
        assert load_config(tmp_path / "c.toml") == config


@given(trace=st.text(), device=st.text(), model=st.text())
def test_any_text_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, trace: str, device: str, model: str
) -> None:
    config = make_config({"network": {"trace": trace}, "learning": {"device": device, "model": model}})
    folder = tmp_path_factory.mktemp("run")
    (folder / "config.toml").write_text(config.toml(), encoding="utf-8", newline="")
    assert stored_config(folder) == load_config(folder / "config.toml") == config


@pytest.mark.parametrize("value", ["2024-01-01", "12:00:00", "nan", "[1, [nan]]", "{a = {b = 2024-01-01}}"])
def test_an_option_that_cannot_be_kept_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"selection\.options\.x is .*, but must be a number, a text") as refused:
        make_config({}, [f"selection.options.x={value}"])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", ["1", "-1.5", "inf", "true", "'a'", "[1, 'b']", "{a = [true]}"])
def test_options_keep_their_type(value: str) -> None:
    config = make_config({}, [f"selection.options.x={value}"])
    assert make_config(tomllib.loads(config.toml())).toml() == config.toml()
    assert not differences(config, make_config(tomllib.loads(config.toml())), ONE_RUN)


@pytest.mark.parametrize("other", ["true", "1.0", "'1'", "[1]"])
def test_options_of_another_type_make_another_run(other: str) -> None:
    one, two = (make_config({}, [f"selection.options.x={value}"]) for value in ("1", other))
    assert list(differences(one, two, ONE_RUN)) == ["selection.options"]


def test_a_title_is_short() -> None:
    config = make_config({}, [f"selection.options.x={'a' * 1000}", "selection.options.y=2"])
    assert config.title == f"pause (x={'a' * 39}…, y=2)"


@pytest.mark.parametrize(
    ("server", "said"),
    [({"over_select": 9.0}, "45 clients are asked, more than network.clients = 30"),
     ({"over_select": 0.5}, "over_select"), ({"late": "use"}, "server.late has no effect here; set server.over_select"),
     ({"deadline_slack": 2.0}, "server.deadline_slack has no effect here"), ({"close_after": 0}, "close_after"),
     ({"deadline_quantile": 1.5}, "deadline_quantile")],
)  # fmt: skip
def test_a_closing_that_cannot_be_is_refused(server: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_config({"server": server})
