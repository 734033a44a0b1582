"""``pausefl node``: a data owner's node, which runs reviewed apps only."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from pausefl.cli import app
from pausefl.cli.options import PRIVACY, AsJson
from pausefl.errors import ConfigError
from pausefl.system.printable_text import printable

if TYPE_CHECKING:
    from pausefl.flower.node.box import Box
    from pausefl.flower.node.bundle import Bundle
    from pausefl.flower.node.reviewed_apps import ReviewedApps

commands = typer.Typer(
    name="node", help="Decide which Flower apps run on your data, and run them behind your gate.", no_args_is_help=True
)
app.add_typer(commands, rich_help_panel=PRIVACY)

Owner: TypeAlias = Annotated[
    Path | None, typer.Option(help="Your owner's file. The list of reviewed apps is beside it.")
]
Apps: TypeAlias = Annotated[Path | None, typer.Option(help="The list of reviewed apps, if it is in another place.")]


@commands.command()
def review(
    app: Annotated[Path, typer.Argument(help="An app's folder, or its .fab file.")],
    owner: Owner = None,
    apps: Apps = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation. Use this only if you have read the app's code.")
    ] = False,
) -> None:
    """Show what is in an app, and put it on the list of reviewed apps if you agree.  Read its code first."""
    from pausefl.flower.node.bundle import left_out, load_bundle

    reviewed, bundle = _apps(owner, apps), load_bundle(app)
    typer.echo("\n".join(_lines(bundle, reviewed, left_out(app, bundle))))
    if bundle.sha256 in reviewed:
        typer.echo("It is on your list already.")
    elif not yes and not sys.stdin.isatty():
        raise ConfigError("there is no terminal to ask whether this app may run on your data; add --yes if it may")
    elif yes or typer.confirm("May exactly this app run on your data?"):
        reviewed.add(bundle)
        typer.echo("It is on your list now.  If one byte of it changes, the node refuses it until you review it again.")
    else:
        typer.echo("It is not on your list.")


@commands.command(name="list")
def show(owner: Owner = None, apps: Apps = None, as_json: AsJson = False) -> None:
    """Print the apps that may run on this node."""
    found = _apps(owner, apps).read()
    if as_json:
        typer.echo(json.dumps([one.model_dump() for one in found], indent=2))
        return
    for one in found:
        typer.echo(printable(f"{one.sha256}  {one.publisher}/{one.name} {one.version}, reviewed {one.reviewed}"))
    if not found:
        typer.echo("no app may run; review one with: pausefl node review APP")


@commands.command()
def withdraw(
    sha256: Annotated[str, typer.Argument(help="The app's hash, or at least its first 8 digits.")],
    owner: Owner = None,
    apps: Apps = None,
) -> None:
    """Take an app off the list of reviewed apps.  From the next message on, it does not run any more."""
    gone = _apps(owner, apps).withdraw(sha256)
    typer.echo(printable(f"{gone.sha256}  {gone.publisher}/{gone.name} {gone.version} may not run any more"))


@commands.command()
def start(
    owner: Annotated[Path, typer.Option(help="Your owner's file.")],
    supernode: Annotated[
        list[str] | None,
        typer.Argument(
            help="Options for flower-supernode. Write them after --: --superlink, --root-certificates, --node-config …"
        ),
    ] = None,
    apps: Apps = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(help="A folder that apps may read. You can repeat this option. Apps can read no other data."),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            help="How many seconds an app may take. After that, the node stops it, and it counts as failed. The "
            "default is 3600, or with --answer-after at least 15 seconds less than that."
        ),
    ] = None,
    answer_after: Annotated[
        float | None,
        typer.Option(
            help="Send the answer of an app this many seconds after its task was launched. Then the server does not "
            "see how long the app took. If no app ran for a task, its answer leaves after 10 seconds."
        ),
    ] = None,
    memory_limit: Annotated[
        int | None, typer.Option(min=64, help="How much memory each process of an app may use, in MiB.")
    ] = None,
    box_user: Annotated[
        str | None,
        typer.Option(help="Run apps as this user. Use it as root, on a machine that does not allow user namespaces."),
    ] = None,
    no_box: Annotated[
        bool, typer.Option("--no-box", help="Run apps without the box. The node prints what is not protected then.")
    ] = False,
) -> None:
    """Start the node: Flower's SuperNode, and the executor, which runs the reviewed apps.

    Each app runs in a box. In it, an app has no network, and can read only code and the folders of --data. When the
    SuperNode or the executor ends, the command ends the other one too.
    """
    from pausefl.flower.node.box import Box, code_folders
    from pausefl.flower.node.guard import QUICK, Guard, time_limit_within
    from pausefl.flower.node.reviewed_apps import ReviewedApps
    from pausefl.flower.node.shared_limits import shared_limits
    from pausefl.flower.node.start import NOT_PROTECTED, check, start_warnings
    from pausefl.flower.node.start import start as run
    from pausefl.owner.owner_check import check_owner
    from pausefl.owner.owner_file import read_owner
    from pausefl.system.freed_memory import give_back_freed_memory

    begun = time.monotonic()
    give_back_freed_memory()
    folders = tuple(folder.expanduser().absolute() for folder in data or ())
    memory = None if memory_limit is None else memory_limit << 20
    limit = time_limit if time_limit is not None else time_limit_within(answer_after) if answer_after else 3600.0
    box = Box(data=folders, time_limit=limit, memory=memory, user=box_user, closed=not no_box)
    guard = Guard(
        owner=owner.expanduser().absolute(), reviewed=_place(owner, apps), box=box, answer_after=answer_after or 0.0
    )
    guard = check(guard, supernode or ())
    terms = check_owner(guard.owner, look=False)
    typer.echo(f"second note: {terms.second_note}")
    ledger_id = read_owner(guard.owner).ledger_id
    typer.echo(f"releases are charged to {terms.name} in {terms.ledger}, ledger {ledger_id}")
    if terms.retired:
        typer.echo(f"{terms.name} was retired at {terms.retired}: this node refuses every training", err=True)
    for warning in (*terms.warnings, *shared_limits(guard.box), *start_warnings(guard, supernode or ())):
        typer.echo(f"WARNING: {warning}", err=True)
    if no_box:
        typer.echo(NOT_PROTECTED, err=True)
    for folder in code_folders() if guard.box.closed else ():
        typer.echo(f"apps can read {folder}, because Python looks for code there")
    count = len(ReviewedApps(guard.reviewed).read())
    typer.echo(f"{count} reviewed {'app' if count == 1 else 'apps'} may run {_terms(guard.box)}")
    if terms.records:
        typer.echo(f"records: {terms.records}")
    if guard.answer_after:
        typer.echo(
            f"every answer leaves {guard.answer_after:g} seconds after its task was launched ({QUICK:g} if no app ran "
            "for it); apps keep no state"
        )
    run(guard, supernode or (), typer.echo, begun)


def _terms(box: Box) -> str:
    kind = "in a box" if box.closed else "without a box"
    limits = f"{box.time_limit:g} seconds" + (f" and {box.memory >> 20} MiB per process" if box.memory else "")
    who = f" as {box.user}" if box.user else ""
    return f"{kind}{who}, for at most {limits}, and can read {', '.join(map(str, box.data)) or 'no data folder'}"


def _place(owner: Path | None, apps: Path | None) -> Path:
    from pausefl.flower.node.reviewed_apps import FILE

    if apps is None and owner is None:
        raise ConfigError("the list of apps is not named; pass --owner FILE, or --apps FILE")
    place = apps if owner is None or apps is not None else owner.expanduser().resolve().with_name(FILE)
    return Path(str(place)).expanduser().absolute()


def _apps(owner: Path | None, apps: Path | None) -> ReviewedApps:
    from pausefl.flower.node.reviewed_apps import ReviewedApps

    if owner is not None and not owner.expanduser().is_file():
        raise ConfigError(f"owner's file {owner} does not exist; check the path")
    return ReviewedApps(_place(owner, apps))


def _place_marks(path: str, bundle: Bundle) -> list[str]:
    """Return what is odd about the place of a file: the bundle comes first where Python looks for a module.

    Installed packages also try to import modules that are not installed.
    """
    from importlib.util import find_spec

    from pausefl.flower.node.app_text import importer_of

    top = path.partition("/")[0].partition(".")[0]
    if not path.endswith(".py") and not ("/" in path and top.isidentifier()):
        return []
    try:
        known = top in sys.stdlib_module_names or find_spec(top) is not None
    except (ImportError, ValueError):  # it is there, but not loaded in the usual way
        known = True
    if known:
        return [f"WARNING: it takes the place of the module {top!r}"]
    own = bundle.components["clientapp"].partition(":")[0].partition(".")[0]
    if top != own:
        return [f"WARNING: any package may import it as {top!r}"]
    return [f"WARNING: {by} imports a module {top!r}, and would get this one"] if (by := importer_of(top)) else []


def _lines(bundle: Bundle, apps: ReviewedApps, left: Sequence[str]) -> list[str]:
    """Say what is in a bundle, without trusting a letter of it."""
    from pausefl.flower.node.app_text import is_source, text_marks
    from pausefl.flower.node.bundle import PACKED

    named = bundle.app
    lines = [
        f"{named['publisher']}/{named['name']} {named['version']} (these are the app's own words)",
        f"SHA-256 {bundle.sha256}",
    ]
    lines += [f"loads {kind}: {place}" for kind, place in bundle.components.items()]
    lines += [f"needs these packages (pausefl installs none): {', '.join(bundle.dependencies) or 'none'}"]
    before = apps.changes(bundle)
    changed = {} if before is None else before[1]
    if before is not None:
        lines.append(f"compared with {before[0].sha256[:8]}, which you reviewed on {before[0].reviewed}:")
    for path, content in bundle.files.items():
        marks = [changed[path]] if path in changed else []
        marks += _place_marks(path, bundle)
        marks += text_marks(path, content)
        lines.append(f"  {len(content):>9,} bytes  {path}" + "".join(f"  ({mark})" for mark in marks))
    lines += [f"  {'':>15}  {path}  (removed)" for path, what in changed.items() if what == "removed"]
    if left:
        read = any(is_source(name) or Path(name).suffix.lower() in PACKED for name in left)
        mark = (
            "WARNING: code or settings that you see in the folder are NOT in the bundle"
            if read
            else "NOT in the bundle"
        )
        lines += [f"{mark}; Flower leaves these out:", *(f"  {'':>15}  {name}" for name in left)]
    if bundle.settings:
        lines.append("the server can change these settings, and no others:")
        lines += [f"  {key} = {value!r}" for key, value in bundle.settings.items()]
    return [printable(line) for line in lines]
