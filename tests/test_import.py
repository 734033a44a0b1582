"""Importing the package is cheap and brings none of the optional worlds along."""

import subprocess
import sys
from pathlib import Path

HEAVY = ("torch", "flwr", "altair", "matplotlib", "sqlite3", "opendp", "dp_accounting", "sklearn", "ray")


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    return set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    )


def test_importing_loads_nothing_optional() -> None:
    assert not loaded_by("import pausefl").intersection(HEAVY)
    assert not loaded_by("import pausefl; pausefl.Selector([1.0, 2.0], 1).select()").intersection(HEAVY)


def test_importing_loads_one_module_of_ours_and_no_package_of_others() -> None:
    new = loaded_by("import pausefl") - loaded_by("pass")
    ours = {name for name in new if name.partition(".")[0] == "pausefl"}
    assert ours == {"pausefl"}
    assert {name.partition(".")[0] for name in new - ours} <= sys.stdlib_module_names


def test_names_are_found_and_listed() -> None:
    import pausefl

    assert {"Selector", "Geometric"} <= set(dir(pausefl))
    assert pausefl.Geometric(1.0, 0.1).budget == 1.0
    assert not hasattr(pausefl, "Nonsense")


def test_a_read_only_installation_without_a_home_still_compiles(tmp_path: Path) -> None:
    # numba then finds no folder for its cache; the loops are compiled anew instead.
    code = (
        "import numba.core.caching as c\n"
        "c.CacheImpl._locator_classes = []\n"
        "import numpy as np\n"
        "from pausefl.selection import solve_exact\n"
        "print(solve_exact(np.ones(3), np.arange(3.0), 1).members.tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "[2]\n"
