"""The audit of a whole client passes the one that is shipped, and finds mods that let something out.

Noise is secure and has no seed.  The sound client is accused with a probability of at most 10^-8.  A leak of a whole
reply is found for certain.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os

import numpy as np
import pytest
from flwr.app import Array, ConfigRecord, Error, Message, MetricRecord

from pausefl.cli import main
from pausefl.errors import ConfigError
from pausefl.flower import PrivateUpdate, audit_client, client_audit
from pausefl.owner.owner_file import read_owner
from pausefl.owner.owner_init import init_owner
from pausefl.privacy import SecureNoise
from pausefl.privacy.ledger.price import rho_share
from pausefl.privacy.zcdp import zcdp_epsilon

FEW = 100
RARE = 1e-8


@pytest.fixture
def file(tmp_path):
    init_owner(tmp_path / "hospital", "hospital")
    return tmp_path / "hospital" / "owner.toml"


@pytest.fixture
def quick(monkeypatch):
    """Each pair is tried less often: for sound clients only, since a fault can be missed so."""
    monkeypatch.setattr(client_audit, "_TRIALS", 16)


def called(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code, capsys.readouterr()


def test_the_shipped_client_passes_and_the_owner_is_left_alone(file, tmp_path, capsys, monkeypatch, quick):
    """Nothing changes in the owner's folder, or in the state folder, where a client notes each of its ledgers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def content():
        return {path: hashlib.sha256(path.read_bytes()).digest() for path in tmp_path.rglob("*") if path.is_file()}

    file.with_name("ledger.db").unlink()  # it need not even be there
    before = content()
    code, seen = called(capsys, "audit", "--owner", file, "--runs", FEW, "--confidence", 1 - RARE, "--json")
    replies, arrays = json.loads(seen.out)
    assert not code and (replies["source"], arrays["source"]) == ("whole replies", "noised arrays")
    assert replies["attainable"] is None and replies["lower"] == 0.0 and np.isfinite(arrays["attainable"])
    assert replies["event"] == "nothing but noised arrays differs", replies
    assert arrays["passed"] and arrays["claimed"] == replies["claimed"] == pytest.approx(1.0)
    assert content() == before and os.environ["XDG_STATE_HOME"] == str(tmp_path / "state")


def examples_told(message, context, app):
    """The app's own number of examples leaves."""
    told = {}

    def listening(msg, ctx):
        answer = app(msg, ctx)
        told.update(next(iter(answer.content.metric_records.values()), {}))
        return answer

    reply = PrivateUpdate()(message, context, listening)
    if reply.has_content() and told:
        reply.content["metrics"] = MetricRecord({"num-examples": told["num-examples"]})
    return reply


def failures_told(message, context, app):
    """A training that fails is answered by an error."""
    failed = []

    def listening(msg, ctx):
        try:
            return app(msg, ctx)
        except ValueError:
            failed.append(True)
            raise

    reply = PrivateUpdate()(message, context, listening)
    return Message(Error(code=6, reason="failed"), reply_to=message) if failed else reply


def evaluation_served(message, context, app):
    """An evaluation is passed on, and one that fails is told."""
    if message.metadata.message_type != "evaluate":
        return PrivateUpdate()(message, context, app)
    try:
        app(message, context)
    except ValueError:
        return Message(Error(code=6, reason="failed"), reply_to=message)
    return Message(Error(code=6, reason="done"), reply_to=message)


_again = itertools.count(1)


def noised_again(message, context, app):
    """A repeated request is charged and noised once more."""
    asked = dict(message.content["pausefl"])
    message.content["pausefl"] = ConfigRecord({**asked, "round": next(_again)})
    return PrivateUpdate()(message, context, app)


@pytest.mark.parametrize(
    ("mod", "event"),
    [
        (examples_told, "the answer to a training request tells data that is 'large' from ordinary data"),
        (failures_told, "the answer to a training request tells data that is 'unreadable' from ordinary data"),
        (evaluation_served, "the answer to an evaluation tells data that is 'unreadable' from ordinary data"),
        (noised_again, "a repeated request gets other arrays than the first time"),
    ],
)
def test_a_reply_that_tells_is_found(file, mod, event):
    (replies,) = audit_client(file, runs=FEW, error=RARE, mod=mod)
    assert replies.verdict == "BROKEN" and replies.lower == float("inf") and replies.event == event


_failed = set()


def telling(change):
    """A mod that changes the reply to a training that failed, in the same way each time it is asked for."""

    def mod(message, context, app):
        asked = context.node_config["pausefl-owner"], message.content["pausefl"]["round"]

        def listening(msg, ctx):
            try:
                return app(msg, ctx)
            except ValueError:
                _failed.add(asked)
                raise

        reply = PrivateUpdate()(message, context, listening)
        if asked in _failed and reply.has_content():
            change(reply)
        return reply

    return mod


def weight(reply):
    return reply.content["arrays"]["weight"]


def later(reply):
    reply.metadata.__dict__["_created_at"] += 100
    reply.metadata.ttl -= 100


def raised(reply):
    raise RuntimeError("training failed")


@pytest.mark.parametrize(
    "change",
    [
        lambda reply: setattr(reply.metadata, "ttl", reply.metadata.ttl - 1.0),
        later,
        lambda reply: setattr(weight(reply), "dtype", "float32"),
        lambda reply: setattr(weight(reply), "shape", (7, 8)),
        lambda reply: setattr(weight(reply), "stype", "else"),
        lambda reply: setattr(weight(reply), "data", weight(reply).data + b" "),
        lambda reply: setattr(weight(reply), "data", weight(reply).data.replace(b" \n", b"\n ", 1)),
        lambda reply: reply.content["arrays"].update({"bias": Array(np.full(8, np.nan))}),
        raised,
    ],
    ids=["ttl", "stamp", "type", "shape", "kind", "length", "header", "no number", "raised"],
)
def test_what_is_around_the_numbers_of_a_reply_is_compared_too(file, change):
    (replies,) = audit_client(file, runs=FEW, error=RARE, mod=telling(change))
    assert replies.verdict == "BROKEN" and "that is 'unreadable' from ordinary data" in replies.event


_bare = {}


def has_bias(answer):
    """Whether an app answers with a bias of numbers: one that is none would show by itself."""
    found = answer.content["arrays"].get("bias") if answer.has_content() and "arrays" in answer.content else None
    return found is not None and np.isfinite(found.numpy()).all()


def bare_bias(message, context, app):
    """One tensor leaves as the app returns it, also if it is asked for again."""
    asked = message.content["pausefl"]["round"]

    def listening(msg, ctx):
        _bare.pop(asked, None)
        answer = app(msg, ctx)
        if has_bias(answer):
            _bare[asked] = answer.content["arrays"]["bias"]
        return answer

    reply = PrivateUpdate()(message, context, listening)
    if reply.has_content() and asked in _bare:
        reply.content["arrays"]["bias"] = _bare[asked]
    return reply


@pytest.fixture
def half(monkeypatch):
    """Each pair is tried half as often: for faults that tell the two inputs of the first pair apart for certain."""
    monkeypatch.setattr(client_audit, "_TRIALS", 30)


def test_arrays_without_noise_are_found(file, half):
    """Unless most of 200 fair coins fall alike."""
    _, arrays = audit_client(file, runs=FEW, mod=bare_bias)
    assert arrays.verdict == "BROKEN", arrays


@pytest.fixture
def records(tmp_path):
    """The file of an owner who protects single records."""
    init_owner(tmp_path / "clinic", "clinic", records=100)
    return tmp_path / "clinic" / "owner.toml"


@pytest.mark.thorough  # siblings: the shipped client of whole updates above, and apps of records in test_app_audit.py
@pytest.mark.parametrize("who", ["gate", "app"])
def test_the_shipped_client_of_single_records_passes(records, who, quick):
    """Where the app clips, ``test_app_audit.py`` has a sound one that passes, attacked with one pair of data sets."""
    records.write_text(records.read_text().replace("[mechanism]", f'[mechanism]\nclipped_by = "{who}"'))
    replies, arrays = audit_client(records, runs=FEW, error=RARE)
    assert replies.event == "nothing but noised arrays differs" and "unit='record'" in replies.mechanism
    assert arrays.passed and "one record, " in arrays.event, arrays
    # Where releases are paid in rho, the account rises by less with each later one.
    owner = read_owner(records)
    rho = rho_share(owner.schedule.budget, owner.mechanism.delta, owner.schedule.epsilon(1))
    assert replies.claimed == pytest.approx(zcdp_epsilon(rho, owner.mechanism.delta))
    assert arrays.claimed == pytest.approx(owner.schedule.budget)  # attacked as one release


def rows_told(message, context, app):
    """The number of rows leaves."""
    told = [12]

    def listening(msg, ctx):
        answer = app(msg, ctx)
        if answer.has_content() and "bias" in answer.content.get("arrays", {}):
            told.append(answer.content["arrays"]["bias"].numpy().shape[0])
        return answer

    reply = PrivateUpdate()(message, context, listening)
    if reply.has_content():
        reply.content["metrics"] = MetricRecord({"num-examples": told[-1]})
    return reply


def spoilt_rows_told(message, context, app):
    """A row that is not finite is answered by an error."""
    spoilt = []

    def listening(msg, ctx):
        answer = app(msg, ctx)
        rows = answer.content["arrays"]["weight"].numpy()
        spoilt.append(np.isnan(rows).any() and not np.isnan(rows).all())
        return answer

    reply = PrivateUpdate()(message, context, listening)
    return Message(Error(code=6, reason="failed"), reply_to=message) if any(spoilt) else reply


@pytest.mark.parametrize(
    ("mod", "kind"), [(rows_told, "one record"), (spoilt_rows_told, "one record that is too much")]
)
def test_a_reply_that_tells_of_rows_is_found(records, mod, kind):
    (replies,) = audit_client(records, runs=FEW, error=RARE, mod=mod)
    assert replies.verdict == "BROKEN" and repr(kind) in replies.event, replies


def unclipped_bias(message, context, app):
    """The bias of the first record is added to what was noised, as if it were no contribution."""
    asked = message.content["pausefl"]["round"]

    def listening(msg, ctx):
        _bare.pop(asked, None)
        answer = app(msg, ctx)
        if has_bias(answer):
            _bare[asked] = answer.content["arrays"]["bias"].numpy()
        return answer

    reply = PrivateUpdate()(message, context, listening)
    rows = _bare.get(asked)
    if reply.has_content() and rows is not None and rows.shape[1:] == (8,) and len(rows):
        bias = reply.content["arrays"]["bias"].numpy()
        reply.content["arrays"]["bias"] = Array(np.asarray(bias + rows[0] / 100.0))
    return reply


@pytest.mark.thorough  # siblings without a client: tests/privacy/test_audit_record_faults.py
def test_rows_that_are_not_clipped_are_found(records):
    """Only huge records show this fault, so a few trials may miss it: half as many do in one audit of six.

    With all trials, none of 1,500 audits of the same fault with simulated noise missed it.
    """
    _, arrays = audit_client(records, runs=FEW, mod=unclipped_bias)
    assert arrays.verdict == "BROKEN", arrays


@pytest.mark.thorough  # siblings without a client: tests/privacy/test_audit_record_faults.py
def test_too_little_noise_on_records_is_found(records, monkeypatch):
    """A 16th of the noise: so few runs miss it in about one audit of a thousand."""
    true = SecureNoise.gaussian

    def quiet(self, vector, sensitivity, multiplier, *, coordinates):
        true(self, vector, sensitivity / 16.0, multiplier, coordinates=coordinates)

    monkeypatch.setattr(SecureNoise, "gaussian", quiet)
    _, arrays = audit_client(records, runs=FEW)
    assert arrays.verdict == "BROKEN", arrays


def test_a_file_for_simulations_is_refused(tmp_path):
    path = tmp_path / "owner.toml"
    path.write_text(
        'name = "c-{partition-id}"\nsimulation = true\n[schedule]\nkind = "fixed-horizon"\nbudget = 8.0\n'
        'releases = 4\n[mechanism]\nkind = "privunit"\nl2 = 1.0\n'
    )
    with pytest.raises(ConfigError, match="audit the file of a deployment"):
        audit_client(path)


def test_a_client_that_refuses_everything_is_an_error(file):
    def refusing(message, context, app):
        return Message(Error(code=6, reason="no"), reply_to=message)

    with pytest.raises(ConfigError, match="answers nothing: an error"):
        audit_client(file, runs=FEW, mod=refusing)


@pytest.mark.parametrize(("words", "options"), [((), {"error": 0.25}), (("--runs", 200), {"error": 0.25, "runs": 200})])
def test_the_command_hands_its_options_on(file, capsys, monkeypatch, words, options):
    told = []

    def audit(path, **more):
        told.append((path, more))
        raise ConfigError("enough")

    monkeypatch.setattr("pausefl.flower.client_audit.audit_client", audit)
    code, seen = called(capsys, "audit", "--owner", file, "--confidence", 0.75, *words)
    assert code == 2 and "enough" in seen.err
    assert told == [(file, options)]


def test_what_the_command_refuses(file, capsys):
    for words in (("audit",), ("audit", "laplace", "--epsilon", 1, "--owner", file)):
        code, seen = called(capsys, *words)
        assert code == 2 and "pass exactly one of them" in seen.err
    assert "are for a mechanism, but --owner takes" in called(capsys, "audit", "--owner", file, "--epsilon", 1)[1].err
    assert "--epsilon" in called(capsys, "audit", "laplace")[1].err
