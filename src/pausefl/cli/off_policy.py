"""``pausefl off-policy``: how another policy would have done in the rounds of a run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from pausefl.cli import app
from pausefl.cli.options import TRAINING, AsJson, complete_policy, terminal
from pausefl.cli.play_runs import use_modules_for_results
from pausefl.system.printable_text import printable

_WORDS = {"seconds": "latency s", "speed": "speed", "answers": "share of answers"}


@app.command("off-policy", rich_help_panel=TRAINING)
def off_policy(
    run: Annotated[
        Path, typer.Argument(help="Folder of one run. Its policy must record how likely it was to pick each client.")
    ],
    policy: Annotated[str, typer.Option(help="The policy to evaluate.", autocompletion=complete_policy)],
    first: Annotated[int, typer.Option(min=1, help="The first round to evaluate.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Estimate how fast the clients of each round would have been if another policy had picked them."""
    from pausefl.runs.off_policy import off_policy as judged
    from pausefl.runs.read_folder import read_run
    from pausefl.runs.replay import with_policy

    stored = read_run(run)
    use_modules_for_results(run, stored.settings, with_policy(stored.settings, policy))
    found = judged(stored, policy, first=first)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=1))
        return
    table, played = Table(), printable(found.played)
    for name in ("mean of the members", f"{played} itself", "inverse", "by a model", "doubly robust"):
        table.add_column(name, justify="left" if name.startswith("mean") else "right", no_wrap=True)
    for name, one in found.measures.items():
        ways = (one.played, one.inverse, one.direct, one.doubly_robust)
        table.add_row(_WORDS[name], *(f"{way.value:.3f} ± {way.high - way.value:.3f}" for way in ways))
    out = terminal()
    out.print(table)
    out.print(
        f"This is what {found.policy} would have picked in {found.rounds} rounds that {played} played. "
        "± is the 95 % interval.\n"
        f"The largest weight of a member is {found.largest_weight:.3g}. The ± of 'by a model' leaves out the model's "
        "bias.\n"
        "These are means over members. They do not tell how long a round takes, because its slowest member decides "
        "that."
    )
    if found.silent:
        out.print(
            f"{found.silent} members did not answer. The latency is that of the others, as a ratio of two estimates."
        )
