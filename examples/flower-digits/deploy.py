"""A Flower deployment on this machine: one SuperLink and a few SuperNodes, each with its own owner's file and ledger.

    python deploy.py run                # plaintext: start, train, stop
    python deploy.py run --tls          # TLS, and SuperNodes that prove who they are by key
    python deploy.py up                 # start and wait for Ctrl-C; prints how to send a run
    python deploy.py records FILE       # write all digits of the clients to a file, a record in each line

Everything is kept in one folder (``--folder``, default ``deployment``); the ledgers in it outlive the deployment.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pausefl.owner.owner_init import init_owner

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from digits_app.task import record_lines  # noqa: E402 - beside this file, wherever it is started

DELTA = 1e-5  # the allowance on top of epsilon
TERMS = {"record": (4.0, 12), "update": (40.0, 4)}  # what is protected: the budget, and how many releases share it
BIN = Path(sys.executable).parent
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ADDRESS": "local",  # else a simulation waits for a cluster that ran here once, though it is gone
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
    "OMP_NUM_THREADS": "1",
}


def environment(home: Path) -> dict[str, str]:
    """Return the environment in which every Flower command runs: its own home, no telemetry, no downloads."""
    path = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
    return {**os.environ, **QUIET, "FLWR_HOME": str(home), "PATH": path}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def descendants(root: int, name: str = "") -> list[int]:
    """Return the pids below a process whose command contains ``name``, parents first."""
    listed = subprocess.run(
        ["ps", "-e", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    found, family = [], [root]
    for parent in family:  # grows while it is read; numbers say nothing of age, they start over at a limit
        for pid, above, command in rows:
            if int(above) == parent:
                family.append(int(pid))
                if name in command:
                    found.append(int(pid))
    return found


class Deployment:
    """Starts, kills, restarts and stops; everything it starts ends by its pid.

    With ``simulation`` there are no SuperNodes: the SuperLink itself plays them (Ray).
    """

    def __init__(
        self, folder: Path, nodes: int = 3, *, tls: bool = False, unit: str = "record", budget: float | None = None,
        releases: int | None = None, delays: Iterable[float] = (0.0, 0.5, 1.5), simulation: bool = False,
    ) -> None:  # fmt: skip
        self._simulation = simulation
        self.folder, self.nodes, self.tls = folder.absolute(), nodes, tls
        self.home = self.folder / "flwr"
        self.env = environment(self.home)
        self.address = f"127.0.0.1:{free_port()}"
        self._delays = dict(enumerate(delays))
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.home.mkdir(parents=True, exist_ok=True)
        if simulation:  # all clients share one file, and every run has a ledger of its own
            file = "simulation.toml" if unit == "record" else "simulation-update.toml"
            self.env["PAUSEFL_OWNER"] = str(shutil.copy(HERE / file, self.folder))
        for node in range(0 if simulation else nodes):
            self.add_owner(node, unit, budget or TERMS[unit][0], releases or TERMS[unit][1])
        if tls:
            self._make_keys()
        trust = f'root-certificates = "{self.folder / "ca.crt"}"' if tls else "insecure = true"
        (self.home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{self.address}"\n{trust}\n'
        )

    def owner_folder(self, node: int) -> Path:
        """Return where a client's own files are: owner.toml, ledger.db."""
        return self.folder / f"client-{node}"

    def add_owner(self, node: int, unit: str, budget: float, releases: int) -> None:
        """Make a client's owner's file and ledger, unless it has them: what ``pausefl owner init`` does."""
        if self.owner_folder(node).exists():
            return
        given: dict[str, Any] = {}
        if unit == "record":
            given = {"records_from": self.folder / f"records-{node}.csv", "delta": DELTA}
            given["records_from"].write_text(record_lines(node, self.nodes))
        init_owner(self.owner_folder(node), f"client-{node}", budget=budget, releases=releases, **given)

    def __enter__(self) -> Deployment:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the SuperLink and all SuperNodes."""
        self.start_link()
        for node in range(0 if self._simulation else self.nodes):
            self.start_node(node)

    def start_link(self) -> None:
        """Start the SuperLink and wait until it listens; with keys, register the SuperNodes."""
        host, _, port = self.address.partition(":")
        secure = ["--ssl-ca-certfile", "ca.crt", "--ssl-certfile", "server.crt", "--ssl-keyfile", "server.key"]
        trust = [*secure, "--enable-supernode-auth"] if self.tls else ["--insecure"]
        engine = ["--simulation"] if self._simulation else []
        self._start("superlink", "flower-superlink", *engine, *trust, "--host", host, "--port", port)
        self._wait_for(int(port))
        if self.tls:
            for node in range(self.nodes):
                self.flwr("supernode", "register", f"node-{node}.pub", "--name", f"client-{node}", check=False)

    def start_node(self, node: int) -> None:
        """Start one SuperNode."""
        settings = {
            "partition-id": node,
            "num-partitions": self.nodes,
            "delay": float(self._delays.get(node, 0.0)) / self._calls(node),
            "pausefl-owner": str(self.owner_folder(node) / "owner.toml"),
        }
        pairs = " ".join(f"{key}={json.dumps(value)}" for key, value in settings.items())
        keys = ["--root-certificates", "ca.crt", "--auth-supernode-private-key", f"node-{node}"]
        trust = keys if self.tls else ["--insecure"]
        common = ["--superlink", self.address, "--port", str(free_port()), "--node-config", pairs]
        self._start(f"supernode-{node}", "flower-supernode", *trust, *common)

    def _calls(self, node: int) -> int:
        """Return how often the app is called in one round: once for each record, if there is a file of them."""
        records = self.folder / f"records-{node}.csv"
        return len(records.read_text().splitlines()) if records.exists() else 1

    def kill(self, name: str, how: int = signal.SIGKILL) -> None:
        """End one of our processes, and then what it leaves behind: Flower's helpers are in sessions of their own."""
        process = self._running.pop(name)
        left = descendants(process.pid)
        process.send_signal(how)
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def server_app(self) -> int | None:
        """Return the pid of the server app that runs now."""
        return next(iter(descendants(self._running["superlink"].pid, "flwr-serverapp")), None)

    def stop(self) -> None:
        """End everything that was started here."""
        for name in sorted(self._running, reverse=True):  # the nodes first
            self.kill(name, signal.SIGTERM)

    def log(self, name: str) -> str:
        """Return what a process has said."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def flwr(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a flwr command."""
        return subprocess.run(
            [BIN / "flwr", *words], cwd=self.folder, env=self.env, check=check, text=True, capture_output=True
        )

    def begin_run(self, app: Path, config: Mapping[str, object], log: Path) -> subprocess.Popen[bytes]:
        """Send a run and stream what its server app says into a file; the process ends with the run."""
        pairs = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        words = ["run", str(app), "here", "--stream", *(["--run-config", pairs] if pairs else [])]
        if self._simulation:
            words += ["--federation-config", f"num-supernodes={self.nodes} client-resources-num-cpus=1"]
        with log.open("wb") as file:
            return subprocess.Popen(
                [BIN / "flwr", *words], cwd=self.folder, env=self.env, stdout=file, stderr=subprocess.STDOUT
            )

    def _start(self, name: str, command: str, *words: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as file:
            self._running[name] = subprocess.Popen(
                [BIN / command, *words], cwd=self.folder, env=self.env, stdout=file, stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this script, which then ends them in order
            )  # fmt: skip

    def _wait_for(self, port: int, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    return
            if self._running["superlink"].poll() is not None:
                break
            time.sleep(0.2)
        raise RuntimeError(f"the SuperLink does not listen:\n{self.log('superlink')}")

    def _make_keys(self) -> None:
        """Make a certificate authority, the SuperLink's certificate for 127.0.0.1, and a key pair per SuperNode."""
        if (self.folder / "server.crt").exists():
            return
        (self.folder / "san.cnf").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-nodes"]
        make_ca = ["req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.crt", "-days", "30", "-subj", "/CN=example"]
        ask = ["req", *curve, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=127.0.0.1"]
        sign = ["x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]
        for words in (make_ca, ask, [*sign, "-out", "server.crt", "-days", "30", "-extfile", "san.cnf"]):
            subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)
        for node in range(self.nodes):
            make = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", f"node-{node}"]
            subprocess.run(make, cwd=self.folder, check=True, capture_output=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "up", "records"])
    parser.add_argument("file", type=Path, nargs="?", help="where to write the records")
    parser.add_argument("--tls", action="store_true", help="TLS, and SuperNodes authenticated by key")
    parser.add_argument("--folder", type=Path, default=Path("deployment"))
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--unit", choices=["record", "update"], default="record", help="what new owners' files protect")
    given = parser.parse_args()
    if given.what == "records":
        given.file.write_text(record_lines(0, 1))
        return
    with Deployment(given.folder, given.nodes, tls=given.tls, unit=given.unit) as deployment:
        if given.what == "up":
            unit = "" if given.unit == "record" else " --run-config 'unit=\"update\" per-round=2'"
            print(f"FLWR_HOME={deployment.home} flwr run {HERE} here --stream{unit}    # Ctrl-C here stops everything")
            signal.sigwait([signal.SIGINT, signal.SIGTERM])
            return
        log = deployment.folder / "run.log"
        names = {"names": "registered"} if given.tls else {}
        together = {"clients": given.nodes, "per-round": given.nodes if given.unit == "record" else 2}
        code = deployment.begin_run(HERE, {"unit": given.unit, **together, **names}, log).wait()
        print(log.read_text())
    sys.exit(code)


if __name__ == "__main__":
    main()
