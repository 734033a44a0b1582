"""``pausefl audit``: attack a shipped mechanism and print what it must have leaked beside what it claims."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

import click
import typer

from pausefl.cli import app
from pausefl.cli.options import PRIVACY, AsJson

if TYPE_CHECKING:
    from pausefl.privacy import Mechanism


_Source: TypeAlias = Literal["both", "simulated", "secure"]


@app.command(rich_help_panel=PRIVACY)
def audit(
    mechanism: Annotated[
        str,
        typer.Argument(
            help="Which mechanism to attack, e.g. laplace, gaussian or privunit; a wrong name lists all of them.",
            autocompletion=lambda incomplete: [name for name in _variants() if name.startswith(incomplete)],
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="What it claims to leak at most, per release.")],
    source: Annotated[
        _Source, typer.Option(click_type=click.Choice(get_args(_Source)), help="Which noise to attack.")
    ] = "both",
    runs: Annotated[int, typer.Option(min=100, help="Releases of each input by which the claim is judged.")] = 40_000,
    delta: Annotated[float | None, typer.Option(help="For the gaussian mechanism; 1e-5 if left out.")] = None,
    confidence: Annotated[
        float,
        typer.Option(click_type=click.FloatRange(0.5, 1.0, min_open=True, max_open=True), help="Of the lower bound."),
    ] = 0.99,
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
    from pausefl.privacy import Noise, SecureNoise, SimulatedNoise
    from pausefl.privacy.audit import audit as attack

    variants = _variants()
    require(mechanism in variants, "mechanism", mechanism, f"one of {', '.join(variants)}", "choose one")
    target: Any = variants[mechanism]
    if target.guarantee.pure:
        require(not delta, "delta", delta, f"left out with {mechanism}, which has none", "drop --delta")
    elif delta is not None:
        target = replace(target, delta=delta)
    sources: list[Noise] = [SecureNoise()] if source != "simulated" else []
    if source != "secure":
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


def _variants() -> dict[str, Mechanism]:
    from pausefl.privacy import MECHANISMS

    return {name: variant for kind in MECHANISMS.values() for name, variant in kind.audited().items()}
