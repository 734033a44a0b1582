"""``pausefl audit``: attack a mechanism, or an owner's whole client, and print how much it leaks at least."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

import click
import typer

from pausefl.cli import app
from pausefl.cli.options import PRIVACY, AsJson

if TYPE_CHECKING:
    from pausefl.privacy import Mechanism
    from pausefl.privacy.audit import Audit


_Source: TypeAlias = Literal["both", "simulated", "secure"]


@app.command(rich_help_panel=PRIVACY)
def audit(
    mechanism: Annotated[
        str | None,
        typer.Argument(
            help="The mechanism to attack, for example laplace, gaussian or privunit. A wrong name lists all of them.",
            autocompletion=lambda incomplete: [name for name in _variants() if name.startswith(incomplete)],
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="The epsilon that the mechanism claims for each release.")
    ] = None,
    owner: Annotated[
        Path | None,
        typer.Option(help="Attack the whole client of this owner's file instead. The audit uses a temporary copy."),
    ] = None,
    made_by: Annotated[
        str | None,
        typer.Option(
            "--app",
            metavar="MODULE:MAKE",
            help="With --owner: attack this app. MAKE(0) returns it with a data set, and MAKE(1) with one record "
            "replaced.",
        ),
    ] = None,
    source: Annotated[
        _Source,
        typer.Option(
            click_type=click.Choice(get_args(_Source)), help="Which noise to attack. Only secure noise is private."
        ),
    ] = "both",
    runs: Annotated[
        int | None,
        typer.Option(
            min=100,
            help="How many releases of each input to make. The default is 40000. It is 4000 with --owner, and 500 "
            "with --app.",
        ),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="The delta of the gaussian mechanism. The default is 1e-5.")
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(
            click_type=click.FloatRange(0.5, 1.0, min_open=True, max_open=True),
            help="How sure the lower bound must be. For example, 0.99 means that it is wrong in at most 1 % of audits.",
        ),
    ] = 0.99,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the simulated noise.")] = 0,
    low_bits: Annotated[
        bool | None,
        typer.Option(
            "--low-bits/--no-low-bits",
            help="Also look at the last bits of the floats. The default is to do so for secure noise only.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Attack MECHANISM, or an owner's whole client, and print how large its epsilon is at least.

    A mechanism bounds an update and adds noise to it. The audit tries to tell two inputs apart by what leaves. For
    laplace, the printed bound is per coordinate. The exit code is 1 if the bound is above the epsilon that is claimed.
    """
    from pausefl.errors import ConfigError, require

    if (mechanism is None) == (owner is None):
        raise ConfigError("MECHANISM and --owner are both given or both missing; pass exactly one of them")
    require(made_by is None or owner is not None, "--app", made_by, "given with --owner", "add --owner FILE")
    error = 1.0 - confidence
    if owner is not None:
        strange = epsilon is not None or delta is not None or low_bits is not None or source != "both"
        if strange:
            raise ConfigError(
                "--epsilon, --delta, --source and --low-bits are for a mechanism, but --owner takes these values from "
                "the "
                "owner's file; leave them out"
            )
        typer.echo("attacking a copy of this client; this takes a minute or some minutes", err=True)
        found = _client(owner, made_by, runs, error)
    else:
        if epsilon is None:
            raise ConfigError("--epsilon is missing; pass what the mechanism claims, for example --epsilon 1")
        found = _mechanism(str(mechanism), epsilon, source, runs, delta, error, seed, low_bits, as_json)
    if as_json:
        rows = [{**asdict(one), "passed": one.passed, "verdict": one.verdict} for one in found]
        finite = [{key: None if value == math.inf else value for key, value in row.items()} for row in rows]
        typer.echo(json.dumps(finite, indent=2))
    else:
        typer.echo(f"{found[0].mechanism}: {found[0].runs} runs of each input, {confidence:.6g} confidence")
        for one in found:
            name = one.source if one.private else f"{one.source} (not private)"
            claim = f"claims {one.claimed:g}" + (f" at delta {one.delta:g}" if one.delta else "")
            typer.echo(f"{name:<24} {claim}, leaks at least {one.lower:.3f}: {one.verdict}  ({one.event})")
    if not all(one.passed for one in found):
        raise typer.Exit(1)


def _client(owner: Path, made_by: str | None, runs: int | None, error: float) -> list[Audit]:
    from pausefl.flower import audit_client
    from pausefl.system.import_path import imported

    more: dict[str, Any] = {} if runs is None else {"runs": runs}
    if made_by is not None:
        sys.path.append(str(Path.cwd()))
        more["make"] = imported(made_by, "--app")
    return audit_client(owner, error=error, **more)


def _mechanism(
    name: str, epsilon: float, source: _Source, runs: int | None, delta: float | None, error: float, seed: int,
    low_bits: bool | None, hidden: bool,
) -> list[Audit]:  # fmt: skip
    import numpy as np
    from rich.console import Console
    from rich.progress import track

    from pausefl.errors import did_you_mean, require
    from pausefl.privacy import Noise, SecureNoise, SimulatedNoise
    from pausefl.privacy.audit import audit as attack

    variants = _variants()
    require(
        name in variants,
        "mechanism",
        name,
        f"one of {', '.join(variants)}",
        did_you_mean(name, variants, "pass one of these names"),
    )
    target: Any = variants[name]
    if target.guarantee.pure:
        require(not delta, "delta", delta, f"left out with {name}, which has no delta", "leave --delta out")
    elif delta is not None:
        target = replace(target, delta=delta)
    sources: list[Noise] = [SecureNoise()] if source != "simulated" else []
    if source != "secure":
        sources.append(SimulatedNoise(np.random.default_rng(seed)))
    hidden = hidden or not sys.stderr.isatty()
    waiting = track(sources, "attacking", console=Console(stderr=True), transient=True, disable=hidden)
    more: dict[str, Any] = {} if runs is None else {"runs": runs}
    return [attack(target, epsilon, noise, error=error, low_bits=low_bits, **more) for noise in waiting]


def _variants() -> dict[str, Mechanism]:
    from pausefl.privacy import MECHANISMS

    return {name: variant for kind in MECHANISMS.values() for name, variant in kind.audited().items()}
