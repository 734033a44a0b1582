"""``pausefl audit``: attack a shipped mechanism and print what it must have leaked beside what it claims."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from pausefl.cli import app


class Choice(StrEnum):
    """The mechanisms that can be named."""

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


@app.command()
def audit(
    mechanism: Annotated[Choice, typer.Argument(help="Which mechanism to attack.")],
    epsilon: Annotated[float, typer.Option(help="What it claims to leak at most, per release.")],
    source: Annotated[Source, typer.Option(help="Which noise to attack.")] = Source.BOTH,
    runs: Annotated[int, typer.Option(help="Releases of each input.")] = 4000,
    delta: Annotated[float, typer.Option(help="For the gaussian mechanism.")] = 1e-5,
    confidence: Annotated[float, typer.Option(help="Of the lower bound.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Of the simulated noise.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Attack MECHANISM and print a 95 % lower bound on its epsilon; exit 1 if it is above the claim."""
    import numpy as np
    from rich.console import Console
    from rich.progress import track

    from pausefl.privacy import Gaussian, Laplace, Mechanism, Noise, PrivUnit, SecureNoise, SimulatedNoise
    from pausefl.privacy.audit import audit as attack

    shipped: dict[Choice, Mechanism] = {
        Choice.LAPLACE_COORDINATE: Laplace(unit="coordinate", width=1.0),
        Choice.LAPLACE_UPDATE: Laplace(unit="update", l1=1.0),
        Choice.GAUSSIAN: Gaussian(l2=1.0, delta=delta),
        Choice.PRIVUNIT: PrivUnit(l2=1.0),
        Choice.PRIVUNIT_SPHERE: PrivUnit(l2=1.0, kind="sphere"),
        Choice.PRIVUNIT_NORM: PrivUnit(l2=1.0, norm="private"),
    }
    sources: list[Noise] = []
    if source is not Source.SIMULATED:
        sources.append(SecureNoise())
    if source is not Source.SECURE:
        sources.append(SimulatedNoise(np.random.default_rng(seed)))
    waiting = track(sources, "attacking", console=Console(stderr=True), transient=True, disable=as_json)
    found = [attack(shipped[mechanism], epsilon, noise, runs=runs, error=1.0 - confidence) for noise in waiting]
    if as_json:
        typer.echo(json.dumps([{**asdict(one), "passed": one.passed} for one in found], indent=2))
    else:
        typer.echo(f"{shipped[mechanism]!r}: {runs} runs of each input, {confidence:.6g} confidence")
        for one in found:
            name = one.source if one.private else f"{one.source} (not private)"
            verdict = "holds " if one.passed else "BROKEN"
            typer.echo(f"{name:<24} claims {one.claimed:g}, leaks at least {one.lower:.3f}: {verdict}  ({one.event})")
    if not all(one.passed for one in found):
        raise typer.Exit(1)
