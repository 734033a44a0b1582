"""``pausefl audit``: attack a shipped mechanism and print what it must have leaked beside what it claims."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from pausefl.cli import app
from pausefl.cli.options import PRIVACY, AsJson


class Choice(StrEnum):
    """The mechanisms that can be named."""

    LAPLACE = "laplace"
    LAPLACE_COORDINATE = "laplace-coordinate"
    LAPLACE_UPDATE = "laplace-update"
    GAUSSIAN = "gaussian"
    PRIVUNIT = "privunit"
    PRIVUNIT_SPHERE = "privunit-sphere"
    PRIVUNIT_NORM = "privunit-norm"


class Source(StrEnum):
    """Where the noise comes from."""

    BOTH = "both"
    SIMULATED = "simulated"
    SECURE = "secure"


@app.command(rich_help_panel=PRIVACY)
def audit(
    mechanism: Annotated[
        Choice, typer.Argument(metavar="MECHANISM", help=f"Which mechanism to attack: {', '.join(Choice)}.")
    ],
    epsilon: Annotated[float, typer.Option(help="What it claims to leak at most, per release.")],
    source: Annotated[Source, typer.Option(help="Which noise to attack.")] = Source.BOTH,
    runs: Annotated[int, typer.Option(help="Releases of each input, 100 or more.")] = 4000,
    delta: Annotated[float | None, typer.Option(help="For the gaussian mechanism; 1e-5 if left out.")] = None,
    confidence: Annotated[float, typer.Option(help="Of the lower bound, between 0.5 and 1.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Of the simulated noise.")] = 0,
    low_bits: Annotated[
        bool | None,
        typer.Option("--low-bits/--no-low-bits", help="Look at the floats' last bits; by default of secure noise."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Attack MECHANISM (laplace: per coordinate) and print a lower bound on its epsilon; exit 1 if it is broken."""
    import numpy as np
    from rich.console import Console
    from rich.progress import track

    from pausefl.errors import require
    from pausefl.privacy import Gaussian, Laplace, Mechanism, Noise, PrivUnit, SecureNoise, SimulatedNoise
    from pausefl.privacy.audit import audit as attack

    require(0.5 < confidence < 1.0, "confidence", confidence, "between 0.5 and 1", "0.95 is common")
    require(runs >= 100, "runs", runs, "100 or more", "fewer show nothing")
    if mechanism is not Choice.GAUSSIAN:
        require(not delta, "delta", delta, f"left out with {mechanism.value}, which has none", "drop --delta")
    shipped: dict[Choice, Callable[[], Mechanism]] = {
        Choice.LAPLACE: lambda: Laplace(unit="coordinate", width=1.0),
        Choice.LAPLACE_COORDINATE: lambda: Laplace(unit="coordinate", width=1.0),
        Choice.LAPLACE_UPDATE: lambda: Laplace(unit="update", l1=1.0),
        Choice.GAUSSIAN: lambda: Gaussian(l2=1.0, delta=1e-5 if delta is None else delta),
        Choice.PRIVUNIT: lambda: PrivUnit(l2=1.0),
        Choice.PRIVUNIT_SPHERE: lambda: PrivUnit(l2=1.0, kind="sphere"),
        Choice.PRIVUNIT_NORM: lambda: PrivUnit(l2=1.0, norm="private"),
    }
    target = shipped[mechanism]()
    sources: list[Noise] = []
    if source is not Source.SIMULATED:
        sources.append(SecureNoise())
    if source is not Source.SECURE:
        sources.append(SimulatedNoise(np.random.default_rng(seed)))
    hidden = as_json or not sys.stderr.isatty()
    waiting = track(sources, "attacking", console=Console(stderr=True), transient=True, disable=hidden)
    found = [attack(target, epsilon, noise, runs=runs, error=1.0 - confidence, low_bits=low_bits) for noise in waiting]
    if as_json:
        rows = [{**asdict(one), "passed": one.passed, "verdict": one.verdict} for one in found]
        typer.echo(json.dumps(rows, indent=2))
    else:
        typer.echo(f"{target!r}: {runs} runs of each input, {confidence:.6g} confidence")
        for one in found:
            name = one.source if one.private else f"{one.source} (not private)"
            claim = f"claims {one.claimed:g}" + (f" at delta {one.delta:g}" if one.delta else "")
            typer.echo(f"{name:<24} {claim}, leaks at least {one.lower:.3f}: {one.verdict}  ({one.event})")
    if not all(one.passed for one in found):
        raise typer.Exit(1)
