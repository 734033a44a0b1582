"""Importing the package is cheap and brings none of the optional worlds along."""

import subprocess
import sys

HEAVY = ("torch", "flwr", "altair", "matplotlib", "sqlite3", "opendp", "dp_accounting", "sklearn", "ray")


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    return set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    )


def test_importing_loads_nothing_optional() -> None:
    assert not loaded_by("import pausefl").intersection(HEAVY)
    assert not loaded_by("import pausefl; pausefl.Selector([1.0, 2.0], 1).select()").intersection(HEAVY)


def test_importing_takes_less_than_half_a_second() -> None:
    code = "import time; t = time.perf_counter(); import pausefl; print(time.perf_counter() - t)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(times) < 0.5


def test_names_are_found_and_listed() -> None:
    import pausefl

    assert {"Selector", "Geometric"} <= set(dir(pausefl))
    assert pausefl.Geometric(1.0, 0.1).budget == 1.0
    assert not hasattr(pausefl, "Nonsense")
