"""The mod against a server and an app that are both out to get the data."""

from __future__ import annotations

import logging
import math
import resource
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from pausefl.errors import ConfigError
from pausefl.flower import PrivateUpdate, record_in
from pausefl.flower.client import find_owner
from pausefl.flower.protocol import Note, Refusal
from pausefl.flower.simulation import simulated
from pausefl.privacy import FixedHorizon, PrivUnit, SqliteLedger
from pausefl.privacy.mechanisms import noise

LAPLACE = '[mechanism]\nkind = "laplace"\nunit = "coordinate"\nwidth = 0.5\n'


def with_mechanism(tools, text):
    start, end = tools.OWNER.index("[mechanism]"), tools.OWNER.index("[replies]")
    return tools.OWNER[:start] + text + tools.OWNER[end:]


def why(reply: Message) -> str:
    assert reply.has_error()
    refusal = Refusal.of(reply.error)
    assert refusal is not None
    return refusal.why


def arrays(reply: Message) -> dict[str, np.ndarray]:
    assert not reply.has_error(), reply.error
    [found] = reply.content.array_records.values()
    return {name: array.numpy() for name, array in found.items()}


def same(one: Message, other: Message) -> bool:
    a, b = arrays(one), arrays(other)
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_a_reply_holds_a_noised_model_and_what_is_allowed_and_nothing_else(client, tools):
    reply = client.ask()
    found, before = arrays(reply), tools.model()
    assert {name: (a.shape, a.dtype) for name, a in found.items()} == {
        name: (a.shape, a.dtype) for name, a in before.items()
    }
    assert not any(np.isclose(found[name] - before[name], 1.0).any() for name in before)  # the app added one
    assert dict(reply.content.metric_records["metrics"]) == {"num-examples": 17}
    assert set(reply.content) == {"arrays", "metrics", "pausefl"}
    level = PrivUnit(l2=1.0).noise_level(15, FixedHorizon(8.0, 4).epsilon(1))
    assert Note.of(reply) == Note("client-0", 1, level=level, left=pytest.approx(0.75), next_noise=level.noise)
    [charge] = client.ledger.charges("client-0")
    assert (charge.release, charge.noise, charge.unit) == ("run/1", "secure", "update")
    assert charge.epsilon == FixedHorizon(8.0, 4).epsilon(1)


def test_the_charge_is_on_the_disk_before_the_app_sees_the_message(client, tools):
    def app(msg: Message, context: Context) -> Message:
        assert client.charges == 1
        return tools.trained(msg, context)

    client.app = app
    assert not client.ask().has_error()


def test_the_weight_is_one_unless_the_owner_says_another(client, tools):
    client.write(tools.OWNER.replace("examples = 17", ""))
    assert dict(client.ask().content.metric_records["metrics"]) == {"num-examples": 1}


def test_in_a_simulation_numbers_and_seconds_are_told_if_allowed(client, tools):
    client.write(tools.SIMULATED.replace('["num-examples"]', '["num-examples", "seconds"]'))
    with simulated():
        reply = client.ask()
    told = Note.of(reply).seconds
    assert told == float(f"{told:.2g}") > 0
    assert dict(reply.content.metric_records["metrics"]) == {"num-examples": 40}


def test_the_noise_is_that_of_the_mechanism(client, tools):
    """Laplace on zero updates: the mean of |noise| is width/epsilon."""
    client.write(with_mechanism(tools, LAPLACE))
    big = {"w": np.zeros(20_000)}
    client.app = lambda msg, context: Message(
        RecordDict({"arrays": msg.content.array_records["arrays"], "metrics": MetricRecord({})}), reply_to=msg
    )
    noise = arrays(client.ask(arrays=big))["w"]
    assert np.abs(noise).mean() == pytest.approx(0.5 / 2.0, rel=0.05)


def test_a_repeated_message_gets_the_same_bytes_and_the_app_is_not_asked(client):
    first = client.ask()
    again = client.ask()
    assert same(first, again)
    assert dict(first.content["metrics"]) == dict(again.content["metrics"])
    level = PrivUnit(l2=1.0).noise_level(15, FixedHorizon(8.0, 4).epsilon(1))
    ahead = {"level": level, "left": pytest.approx(0.75), "next_noise": level.noise}
    told = Note("client-0", 1, **ahead), Note("client-0", 1, replayed=True, **ahead)
    assert (Note.of(first), Note.of(again)) == told
    assert client.charges == len(client.seen) == 1


def test_the_same_round_with_other_content_is_refused(client, tools):
    client.ask()
    other = {name: array + 1 for name, array in tools.model().items()}
    assert why(client.ask(arrays=other)) == "repeated"
    assert client.charges == len(client.seen) == 1


def test_without_a_kept_reply_a_repeated_message_is_refused(client, tools):
    client.write(tools.OWNER + "keep = 0\n")
    client.ask()
    assert why(client.ask()) == "repeated"


def test_a_damaged_reply_is_not_sent(client):
    client.ask()
    [kept] = (client.folder / "ledger.db-replies").glob("*.reply")
    kept.write_bytes(kept.read_bytes()[:-1] + b"x")
    assert why(client.ask()) == "repeated"


def test_only_the_last_replies_are_kept(client):
    for number in (1, 2, 3):
        client.ask(round=number)
    assert len(list((client.folder / "ledger.db-replies").glob("*.reply"))) == 2
    assert why(client.ask(round=1)) == "repeated"
    assert not client.ask(round=2).has_error()
    assert client.charges == 3


def test_a_new_run_costs_budget_and_the_end_is_polite(client):
    replies = [client.ask(run=f"run-{number}") for number in range(6)]
    assert [reply.has_error() for reply in replies] == [False] * 4 + [True] * 2
    assert Refusal.of(replies[-1].error) == Refusal("exhausted", 4)
    assert client.ledger.spent("client-0") <= 8.0


def test_a_hostile_server_gets_no_more_than_the_budget_out_of_hundreds_of_requests(client, tools):
    """Replays, new runs, other models, huge budgets, evaluations and queries, all straight through the mod.

    Few names of runs, so that what was released is asked for again dozens of times, with the same content and others.
    """
    client.write(with_mechanism(tools, LAPLACE))
    rng = np.random.default_rng(1)
    released: set[bytes] = set()
    for number in range(300):
        kind = ["train", "train", "train.other", "evaluate", "query"][rng.integers(5)]
        asked = {"run": f"run-{rng.integers(8)}", "round": int(rng.integers(1, 5)), "kind": kind}
        if rng.random() < 0.3:
            asked["arrays"] = {name: array * rng.integers(1, 3) for name, array in tools.model().items()}
        greed = {"epsilon": 1e9, "clip": 1e9} if rng.random() < 0.5 else {}
        reply = client.ask(**asked, more=greed, config={"budget": 1e9, "epsilon": 1e9, "server-round": number})
        if not reply.has_error():
            base = asked.get("arrays", tools.model())
            found = arrays(reply)
            assert not any(np.isin(found[name], base[name] + 1).any() for name in base)  # what the app made of it
            assert dict(reply.content.metric_records["metrics"]) == {"num-examples": 17}
            released.add(b"".join(array.tobytes() for array in found.values()))
    charges = client.ledger.charges("client-0")
    assert len(released) == len(charges) == len(client.seen) == 4
    assert math.fsum(charge.epsilon for charge in charges) <= 8.0
    client.ledger.verify()


def test_what_the_server_asks_for_only_makes_it_stricter(client, tools):
    client.write(with_mechanism(tools, LAPLACE))
    big = {"w": np.zeros(20_000)}

    def still(msg: Message, context: Context) -> Message:
        return Message(RecordDict({"arrays": msg.content["arrays"], "metrics": MetricRecord({})}), reply_to=msg)

    client.app = still
    noisy = arrays(client.ask(round=1, arrays=big, more={"epsilon": 0.2}))["w"]
    assert np.abs(noisy).mean() == pytest.approx(0.5 / 0.2, rel=0.05)
    clipped = arrays(client.ask(round=2, arrays=big, more={"clip": 0.1}))["w"]
    assert np.abs(clipped).mean() == pytest.approx(0.5 / 2.0, rel=0.05)  # the noise of the owner's own clip
    greedy = arrays(client.ask(round=3, arrays=big, more={"clip": 50.0, "epsilon": 50.0}))["w"]
    assert np.abs(greedy).mean() == pytest.approx(0.5 / 2.0, rel=0.05)
    epsilons = [charge.epsilon for charge in client.ledger.charges("client-0")]
    assert epsilons == [FixedHorizon(8.0, 4).epsilon(1)] * 3  # charged in full, also where less was let out


@pytest.mark.parametrize(
    "asked",
    [
        {"round": 0}, {"round": -1}, {"round": 2**40}, {"round": "1"}, {"round": 1.5}, {"run": "a/b"}, {"run": ""},
        {"run": "x" * 65}, {"run": 7}, {"more": {"epsilon": -1.0}}, {"more": {"epsilon": math.nan}},
        {"more": {"epsilon": 1e-12}}, {"more": {"clip": 0.0}}, {"more": {"clip": "all"}}, {"more": {"budget": 5.0}},
        {"run": None}, {"arrays": {}}, {"arrays": {"w": np.array([math.nan])}}, {"arrays": {"w": np.arange(3)}},
        {"arrays": {"w": np.zeros(0)}}, {"arrays": {"bn.running_mean": np.zeros(3)}},
    ],
)  # fmt: skip
def test_a_bad_request_costs_nothing(client, asked):
    assert why(client.ask(**asked)) == "bad-request"
    assert client.charges == len(client.seen) == 0


def test_a_server_without_this_package_is_understood(client):
    assert not client.ask(run=None, config={"server-round": 3, "lr": 0.1}).has_error()
    [charge] = client.ledger.charges("client-0")
    assert charge.release.startswith("flwr-")
    assert charge.release.endswith("/3")


def test_two_array_records_are_refused(client, tools):
    message = tools.request()
    message.content["second"] = tools.record(tools.model())
    assert why(client.answer(message)) == "bad-request"


@pytest.mark.parametrize("kind", ["evaluate", "query", "evaluate.loss", "query.all"])
def test_evaluation_and_queries_are_refused_unless_a_simulation_allows_them(client, tools, kind):
    assert why(client.ask(kind=kind)) == "not-allowed"
    client.write(tools.SIMULATED)
    with simulated():
        assert why(client.ask(kind=kind)) == "not-allowed"
    assert not client.seen
    client.write(tools.SIMULATED + 'messages = ["evaluate", "query"]\n')
    with simulated():
        reply = client.ask(kind=kind)
    assert set(reply.content) == {"metrics"}
    assert dict(reply.content.metric_records["metrics"]) == {"num-examples": 40}
    assert client.charges == 0


def test_hello_tells_name_and_count_and_touches_no_data(client):
    client.ask()
    reply = client.ask(round=0, more={"hello": True})
    assert set(reply.content) == {"pausefl"}
    assert dict(reply.content["pausefl"]) == {"name": "client-0", "releases": 1, "left": pytest.approx(0.75)}
    assert len(client.seen) == client.charges == 1


def returning(tools, change):
    def app(msg: Message, context: Context) -> Message:
        reply = tools.trained(msg, context)
        return change(reply, msg) or reply

    return app


def changed(tools, **more):
    def change(reply: Message, msg: Message) -> None:
        found = {name: array.numpy() for name, array in reply.content.array_records["arrays"].items()}
        reply.content["arrays"] = tools.record({k: v for k, v in {**found, **more}.items() if v is not None})

    return change


def second_record(tools):
    def change(reply: Message, msg: Message) -> None:
        reply.content["more"] = tools.record(tools.model())

    return change


BROKEN = ("other name", "missing", "shape", "type", "nan", "infinity", "two records", "error", "nothing", "no message")


@pytest.mark.parametrize("name", BROKEN)
def test_an_app_that_fails_is_answered_like_any_other(client, tools, name):
    """Whether training fails may depend on the data: a refusal would be a bit of it without noise."""
    usual = tools.Client(client.folder, app=None).ask(round=7)
    client.app = returning(
        tools,
        {
            "other name": changed(tools, secret=np.ones(3, dtype=np.float32)),
            "missing": changed(tools, b=None),
            "shape": changed(tools, b=np.zeros(4, dtype=np.float32)),
            "type": changed(tools, b=np.zeros(3)),
            "nan": changed(tools, b=np.full(3, np.nan, dtype=np.float32)),
            "infinity": changed(tools, b=np.full(3, np.inf, dtype=np.float32)),
            "two records": second_record(tools),
            "error": lambda reply, msg: Message(Error(code=9, reason="SECRET"), reply_to=msg),
            "nothing": lambda reply, msg: Message(RecordDict(), reply_to=msg),
            "no message": lambda reply, msg: "SECRET",
        }[name],
    )
    reply = client.ask()
    assert "SECRET" not in repr(reply)
    assert set(reply.content) == set(usual.content)
    assert set(reply.content["metrics"]) == set(usual.content["metrics"])
    for one, two in zip(reply.content["arrays"].values(), usual.content["arrays"].values(), strict=True):
        assert (one.dtype, one.shape) == (two.dtype, two.shape)
        assert not np.array_equal(one.numpy(), two.numpy())
    assert client.charges == 2
    again = client.ask()
    assert np.array_equal(again.content["arrays"]["w"].numpy(), reply.content["arrays"]["w"].numpy())
    assert client.charges == 2


def test_the_reason_of_a_failed_training_is_in_flowers_own_log(client, tools, monkeypatch):
    """Only there: the owner is told to look for it in the log of the SuperNode."""
    told = []
    handler = logging.Handler()
    handler.emit = told.append
    monkeypatch.setattr(logging.getLogger("flwr"), "handlers", [handler])

    def app(message, context):
        raise ValueError("a secret")

    client.app = app
    client.ask()
    [entry] = [one for one in told if "training failed" in one.getMessage()]
    assert "a secret" in str(entry.exc_info[1])


def test_a_failed_training_is_an_unchanged_model_and_its_noise(client, tools):
    client.write(with_mechanism(tools, '[mechanism]\nkind = "gaussian"\nl2 = 1e-7\ndelta = 1e-5\n'))
    client.app = returning(tools, changed(tools, b=np.full(3, np.nan, dtype=np.float32)))
    sent, got = tools.model(), client.ask().content["arrays"]
    assert all(np.allclose(got[name].numpy(), sent[name], atol=1e-5) for name in sent)


def test_another_precision_is_welcome(client, tools):
    """Some server strategies turn a model into doubles, and apps answer in singles."""
    model = {name: array.astype(np.float64) for name, array in tools.model().items()}

    def app(msg: Message, context: Context) -> Message:
        single = {n: (a.numpy() + 1).astype(np.float32) for n, a in msg.content["arrays"].items()}
        return Message(RecordDict({"arrays": tools.record(single)}), reply_to=msg)

    client.app = app
    reply = client.ask(arrays=model)
    assert reply.content["arrays"]["w"].numpy().dtype == np.float64
    moved = np.concatenate([reply.content["arrays"][n].numpy().ravel() - model[n].ravel() for n in model])
    assert np.linalg.norm(moved) > 0.5


def test_an_old_copy_of_the_ledger_is_refused(client):
    client.ask(round=1)
    copy = (client.folder / "ledger.db").read_bytes()
    client.ask(round=2)
    (client.folder / "ledger.db").write_bytes(copy)
    assert why(client.ask(round=2)) == "unready"
    assert why(client.ask(round=3)) == "unready"


def test_a_lost_ledger_is_missed_also_where_no_replies_are_kept(client, tools):
    client.write(tools.OWNER + "keep = 0\n")
    client.ask(round=1)
    (client.folder / "ledger.db").unlink()
    assert why(client.ask(round=2)) == "unready"


def test_the_same_data_under_another_name_is_refused(client, tools):
    client.write(tools.OWNER.replace("client-{partition-id}", "clinic"))
    assert client.ask(round=1).has_content()
    client.write(tools.OWNER.replace("client-{partition-id}", "clinic-2"))
    assert why(client.ask(round=2)) == "unready"


def test_a_folder_for_replies_that_cannot_be_used_costs_nothing(client):
    shutil.rmtree(client.folder / "ledger.db-replies")
    (client.folder / "ledger.db-replies").write_text("in the way")
    assert why(client.ask()) == "unready"
    assert client.charges == 0


def test_a_repeated_reply_tells_the_newest_count_and_follows_todays_file(client, tools):
    first = client.ask(run="a")
    client.ask(run="b")
    client.write(tools.OWNER.replace("examples = 17", ""))
    again = client.ask(run="a")
    assert first.content["metrics"]["num-examples"] == 17
    assert again.content["metrics"]["num-examples"] == 1
    assert again.content["pausefl"]["releases"] == 2
    assert np.array_equal(again.content["arrays"]["w"].numpy(), first.content["arrays"]["w"].numpy())


@pytest.mark.parametrize("key", ["metrics", "pausefl"])
def test_arrays_under_a_name_of_ours_cost_nothing(client, tools, key):
    message = tools.request()
    arrays = message.content["arrays"]
    del message.content["arrays"]
    if key == "pausefl":
        del message.content["pausefl"]
    message.content[key] = arrays
    assert why(client.answer(message)) == "bad-request"
    assert client.charges == 0


def test_replies_are_for_their_owner_only(client):
    client.ask()
    folder = client.folder / "ledger.db-replies"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())


@pytest.mark.parametrize("error", [ValueError("SECRET 42"), SystemExit("SECRET 42"), MemoryError("SECRET 42")])
def test_the_text_of_an_exception_stays_at_home(client, error):
    def app(msg: Message, context: Context) -> Message:
        raise error

    client.app = app
    reply = client.ask()
    assert set(reply.content) == {"arrays", "metrics", "pausefl"}
    assert "SECRET" not in repr(reply)


def test_an_app_cannot_write_into_what_goes_back(client, tools):
    """Not into the message it was given, its metadata, or the model that its own is compared with."""

    def app(msg: Message, context: Context) -> Message:
        msg.metadata.__dict__.update(_group_id="SECRET", _run_id=42, _dst_node_id=42)
        reply = tools.trained(msg, context)
        for name in list(msg.content["arrays"]):
            del msg.content["arrays"][name]
        msg.content["config"] = ConfigRecord({"told": "SECRET"})
        reply.metadata.__dict__["_group_id"] = "SECRET"
        return reply

    client.app = app
    reply = client.ask()
    assert "SECRET" not in repr(reply)
    assert 42 not in (reply.metadata.run_id, reply.metadata.src_node_id)
    assert set(arrays(reply)) == {"w", "b"}


def test_the_app_does_not_see_our_record(client):
    client.ask(config={"server-round": 1})
    assert set(client.seen[0].content) == {"arrays", "config"}


FAULTS = ("no file", "bad file", "no folder", "ledger gone", "ledger damaged", "schedule changed")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_home_refuses_everything(client, tools, fault):
    client.ask()
    asked = len(client.seen)
    owner, ledger = client.folder / "owner.toml", client.folder / "ledger.db"
    if fault == "no file":
        owner.unlink()
    elif fault == "bad file":
        client.write(tools.OWNER.replace("budget", "bugdet"))
    elif fault == "no folder":
        client.write('ledger = "nowhere/ledger.db"\n' + tools.OWNER)
    elif fault == "ledger gone":
        ledger.unlink()
    elif fault == "ledger damaged":
        ledger.write_bytes(b"")
    else:
        client.write(tools.OWNER.replace("budget = 8.0", "budget = 80.0"))
    assert why(client.ask(round=2)) == "unready"
    assert why(client.ask(round=0, more={"hello": True})) == "unready"
    assert why(client.ask(kind="evaluate")) in ("unready", "not-allowed")
    assert len(client.seen) == asked


def test_a_noise_source_that_is_not_installed_costs_nothing(client, tools, monkeypatch):
    client.write(with_mechanism(tools, LAPLACE))
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    for cached in (noise._opendp, noise._sampler):
        cached.cache_clear()
    assert why(client.ask()) == "unready"
    assert client.charges == len(client.seen) == 0


def test_without_room_for_the_reply_nothing_is_charged_and_the_app_is_not_asked(client):
    limit, big = resource.getrlimit(resource.RLIMIT_FSIZE), {"w": np.zeros(200_000)}
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limit[1]))
    try:
        assert why(client.ask(arrays=big)) == "unready"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert client.charges == len(client.seen) == 0
    assert not client.ask(arrays=big).has_error()


def test_the_same_message_in_many_threads_is_charged_once(client):
    client.ask(round=9)  # the ledger exists
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: client.ask(round=1), range(8)))
    good = [reply for reply in replies if not reply.has_error()]
    assert {why(reply) for reply in replies if reply.has_error()} <= {"repeated"}
    assert good
    assert all(same(good[0], reply) for reply in good)
    assert client.charges == 2


def test_the_same_message_in_many_processes_is_charged_once(client, tools):
    """Four processes with one message, let off together: one charge, and never two different replies."""
    client.ask(round=9)
    script = client.folder / "child.py"
    script.write_text(CHILD)
    children = [
        subprocess.Popen(
            [sys.executable, script, client.folder, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for n in range(4)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    told = [child.communicate("go\n", timeout=120)[0].split() for child in children]
    replies = {words[1] for words in told if words[0] == "released"}
    assert len(replies) == 1
    assert {words[1] for words in told if words[0] == "refused"} <= {"repeated"}
    assert client.charges == 2


CHILD = """
import sys
from hashlib import sha256
from pathlib import Path
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from pausefl.errors import ConfigError
from pausefl.flower import PrivateUpdate, record_in
from pausefl.flower.client import find_owner
from pausefl.flower.protocol import Refusal
TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
folder = Path(sys.argv[1])
model = ArrayRecord({"w": Array(np.ones(50, dtype=np.float32))})
asked = Message(RecordDict({"arrays": model, "pausefl": ConfigRecord({"run": "run", "round": 1})}), 5, "train")
asked.metadata.__dict__["_message_id"] = "m" + sys.argv[2]
config = {"partition-id": 0, "pausefl-owner": str(folder / "owner.toml")}
context = Context(1, 5, config, RecordDict(), {})
def app(msg, context):
    return Message(RecordDict({"arrays": msg.content["arrays"], "metrics": MetricRecord({})}), reply_to=msg)
print("ready", flush=True)
sys.stdin.readline()
reply = PrivateUpdate()(asked, context, app)
if reply.has_error():
    print("refused", Refusal.of(reply.error).why)
else:
    print("released", sha256(reply.content["arrays"]["w"].numpy().tobytes()).hexdigest())
"""


def test_tensors_that_stay_local_come_back_as_they_were_sent(client, tools):
    client.write(tools.OWNER.replace("l2 = 1.0", 'l2 = 1.0\nbatch_norm = "keep-local"'))
    sent = {
        "fc.weight": np.ones(3, dtype=np.float32),
        "bn.running_mean": np.full(2, 7.0, dtype=np.float32),
        "bn.num_batches_tracked": np.array(5),
    }
    found = arrays(client.ask(arrays=sent))
    assert np.array_equal(found["bn.running_mean"], sent["bn.running_mean"])
    assert found["bn.num_batches_tracked"] == 5
    assert found["bn.num_batches_tracked"].shape == ()
    assert not np.array_equal(found["fc.weight"], sent["fc.weight"])
    assert same(client.ask(arrays=sent), client.ask(arrays=sent))


def test_a_huge_model_saturates_instead_of_overflowing(client, tools):
    most = np.finfo(np.float32).max
    found = arrays(client.ask(arrays={"w": np.full(4, most, dtype=np.float32)}))
    assert np.isfinite(found["w"]).all()


def test_it_is_a_mod_of_flowers(client, tools, monkeypatch):
    monkeypatch.setenv("PAUSEFL_OWNER", str(client.folder / "owner.toml"))
    app = ClientApp(mods=[PrivateUpdate()])
    app.train()(tools.trained)
    app.evaluate()(tools.trained)
    context = Context(run_id=1, node_id=5, node_config={"partition-id": 0}, state=RecordDict(), run_config={})
    assert not app(tools.request(), context).has_error()
    assert why(app(tools.request(kind="evaluate"), context)) == "not-allowed"


def test_the_owner_says_where_the_file_is_before_the_app_does(tmp_path, monkeypatch):
    monkeypatch.delenv("PAUSEFL_OWNER", raising=False)
    assert find_owner({}, "app.toml").name == "app.toml"
    monkeypatch.setenv("PAUSEFL_OWNER", "variable.toml")
    assert find_owner({}, "app.toml").name == "variable.toml"
    assert find_owner({"pausefl-owner": "node.toml"}, "app.toml").name == "node.toml"
    monkeypatch.delenv("PAUSEFL_OWNER")
    with pytest.raises(ConfigError, match="no owner's file is named"):
        find_owner({}, None)


def test_one_file_serves_a_whole_simulation_and_every_run_has_a_ledger_of_its_own(tmp_path, tools):
    tools.Client(tmp_path).write(tools.SIMULATED)
    with simulated():
        for run in ("one", "two"):
            for number in range(3):
                assert Note.of(tools.Client(tmp_path, number).ask(run=run)).releases == 1
    assert sorted(path.name for path in (tmp_path / "simulated").glob("*.db")) == ["one.db", "two.db"]
    for run in ("one", "two"):
        ledger = SqliteLedger(tmp_path / "simulated" / f"{run}.db")
        assert ledger.simulation
        assert ledger.subjects() == ("client-0", "client-1", "client-2")


def test_a_file_for_simulations_is_refused_outside_of_one(client, tools):
    client.write(tools.SIMULATED)
    for asked in ({}, {"kind": "evaluate"}, {"round": 0, "more": {"hello": True}}):
        assert why(client.ask(**asked)) == "unready"
    assert not client.seen
    assert not (client.folder / "simulated").exists()


def test_the_client_side_needs_neither_torch_nor_the_server_side():
    code = "import sys; from pausefl.flower import PrivateUpdate; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "pausefl.flower.server.strategy", "ray"} & set(done.stdout.split())


def test_an_interrupt_after_the_charge_is_a_refusal_like_any_other_fault(client, monkeypatch):
    """A timer that training left behind can raise it, and Flower would tell the server that it came."""

    def interrupted(arrays):
        raise KeyboardInterrupt

    monkeypatch.setattr("pausefl.flower.client.record_of", interrupted)
    assert (why(client.ask()), client.charges) == ("failed", 1)


@pytest.mark.parametrize("off", ["level", "disabled", "configured", "emptied", "filtered", "on"])
def test_an_app_that_turns_the_log_off_does_not_hide_the_charge(client, off, monkeypatch, capfd):
    """If the ledger is lost, the owner counts these lines; an app sets up its own log, as many do."""
    log = logging.getLogger("flwr")
    for name in ("handlers", "filters", "level", "disabled", "propagate"):
        monkeypatch.setattr(log, name, getattr(log, name))  # put back afterwards
    log.handlers, log.propagate = [logging.StreamHandler()], False
    if off == "level":
        log.setLevel("WARNING")
    elif off == "disabled":
        monkeypatch.setattr(log.manager, "disable", logging.INFO)
    elif off == "configured":
        log.disabled = True  # as dictConfig does it with every log that it does not know
    elif off == "emptied":
        log.handlers = []
    elif off == "filtered":
        log.filters = [lambda record: False]
    log.manager._clear_cache()
    client.ask()
    log.manager._clear_cache()
    assert capfd.readouterr().err.count("pausefl: charged release 1 of '") == 1


def test_a_simulation_does_not_spend_the_budget_of_a_deployment(client, monkeypatch):
    """Its file may be named in the environment still."""
    monkeypatch.setattr("pausefl.flower.client.called_by_an_actor", lambda: True)
    assert why(client.ask()) == "unready" and client.charges == 0


RECORDS = '[mechanism]\nkind = "gaussian"\nl2 = 50.0\ndelta = 1e-6\nunit = "record"\n[records]\npath = "data.csv"\n'


def test_the_app_gets_one_record_at_a_time_where_pausefl_cuts_the_data(client, tools):
    """On Flower's own SuperNode and in simulations: the same calls as in the rooms of a node, in the app's process."""
    (client.folder / "data.csv").write_bytes(b"1\n2\nbad\n30\n")
    client.write(with_mechanism(tools, RECORDS).replace("budget = 8.0", "budget = 9e5"))
    got = []

    def app(msg, context):
        context.state["seen"] = ConfigRecord({"x": 1})
        record = record_in(msg)
        got.append((record.data, record.name, len(msg.content.config_records)))
        added = {name: np.full_like(array, float(record.data)) for name, array in tools.model().items()}
        return Message(RecordDict({"arrays": tools.record(added)}), reply_to=msg)

    client.app = app
    reply = client.ask()
    assert sorted(data for data, _, _ in got) == [b"1", b"2", b"30", b"bad"] and {name for _, name, _ in got} == {""}
    update = np.concatenate([(array - tools.model()[name]).ravel() for name, array in arrays(reply).items()])
    clipped = 1 + 2 + 50.0 / math.sqrt(update.size)  # of 15 numbers: 30 each is longer than the clip
    assert update.mean() == pytest.approx(clipped / 17, abs=0.1)
    assert dict(reply.content.metric_records["metrics"]) == {"num-examples": 17}
    assert client.charges == 1


def test_of_more_records_than_the_owners_file_says_some_are_left_out(client, tools):
    """To train on none would show that there is one more."""
    (client.folder / "data.csv").write_bytes(b"1\n" * 18)
    client.write(with_mechanism(tools, RECORDS).replace("budget = 8.0", "budget = 9e5"))
    added = {name: np.ones_like(array) for name, array in tools.model().items()}
    client.app = lambda msg, context: Message(RecordDict({"arrays": tools.record(added)}), reply_to=msg)
    reply = client.ask()
    update = np.concatenate([(array - tools.model()[name]).ravel() for name, array in arrays(reply).items()])
    assert update.mean() == pytest.approx(17 / 17, abs=0.1) and client.charges == 1


def test_what_one_record_leaves_behind_is_undone_before_the_next(client, tools):
    """A timer of one would stop the next one, and another way to round would change all other rows."""
    (client.folder / "data.csv").write_bytes(b"1\n2\n3\n")
    client.write(with_mechanism(tools, RECORDS).replace("budget = 8.0", "budget = 9e5"))
    found = []

    def app(msg, context):
        found.append((signal.getitimer(signal.ITIMER_REAL)[0], sys.getrecursionlimit()))
        signal.setitimer(signal.ITIMER_REAL, 100.0)
        sys.setrecursionlimit(5000)
        return Message(RecordDict({"arrays": tools.record(tools.model())}), reply_to=msg)

    client.app = app
    assert not client.ask().has_error()
    assert found == [(0.0, sys.getrecursionlimit())] * 3
