import pickle
import subprocess
import sys
from hashlib import blake2b

import numpy as np

from pausefl.rng import client_keys, number_keys, stream, tickets


def test_streams_are_named() -> None:
    assert stream(1, "a", 2).random() == stream(1, "a", 2).random()
    names = [(1, "a", 2), (1, "a", 3), (1, "b", 2), (2, "a", 2), (1, "a"), (1, "a", "2")]
    assert len({stream(*name).random() for name in names}) == len(names)


def test_a_stream_is_the_philox_generator_whose_key_is_the_digest_of_its_name() -> None:
    key = int.from_bytes(blake2b(b"(1, 'a', 2)", digest_size=16).digest(), "little")
    wanted, found = np.random.Generator(np.random.Philox(key=key)), stream(1, "a", 2)
    assert found.permutation(1000).tolist() == wanted.permutation(1000).tolist()
    assert pickle.loads(pickle.dumps(found)).random() == wanted.random()


def test_numpy_integers_name_the_same_stream() -> None:
    assert stream(0, "a", np.int64(3)).random() == stream(np.int64(0), "a", 3).random()


def test_tickets_belong_to_the_client() -> None:
    keys = client_keys(["x", "y", "z", 4])
    drawn = tickets(0, "p", 1, keys)
    assert tickets(0, "p", 1, keys[::-1]).tolist() == drawn[::-1].tolist()
    assert not (tickets(0, "p", 2, keys) == drawn).any()


def test_number_keys_equal_client_keys() -> None:
    assert number_keys(3, 9).tolist() == client_keys(range(3, 9)).tolist()


def test_keys_of_numbers_beyond_64_bits_are_their_own() -> None:
    """No two of them share a key, nor does a number with the text that it is written as."""
    numbers = [sign * (2**power + off) for power in (63, 64, 65, 100, 4095) for off in (0, 1, 7) for sign in (1, -1)]
    keys = client_keys([*numbers, *map(str, numbers), *range(-5, 5)])
    assert len(set(keys.tolist())) == len(keys)
    assert client_keys([np.uint64(2**64 - 1)]).tolist() == client_keys([2**64 - 1]).tolist()


def test_keys_are_the_same_in_another_process() -> None:
    shown = "client_keys(['a', 7, 2**64]).tolist(), stream(0, 'p').random()"
    code = f"from pausefl.rng import client_keys, stream; print({shown})"
    outputs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert outputs == {f"{client_keys(['a', 7, 2**64]).tolist()} {stream(0, 'p').random()}\n"}


def test_tickets_look_uniform() -> None:
    # 16 cells, 160,000 draws; chi-square with 15 degrees of freedom, exceeded by chance once in 10,000.
    drawn = tickets(0, "p", 1, number_keys(0, 160_000))
    cells = np.bincount((drawn >> np.uint64(60)).astype(np.int64), minlength=16)
    assert ((cells - 10_000) ** 2 / 10_000).sum() < 44.3
