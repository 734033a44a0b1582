"""Worker processes with one torch thread each; tensors are shared, so that only numbers travel."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from pausefl.errors import WorkerError
from pausefl.learn.client_data import ClientData
from pausefl.learn.client_trainer import ClientTrainer
from pausefl.learn.optimizer import LocalPlan, OptimizerMemory
from pausefl.learn.record_noise import ClientNoise
from pausefl.learn.torch_import import multiprocessing as tmp
from pausefl.learn.torch_import import nn, torch
from pausefl.learn.torch_process import set_up_torch
from pausefl.system.child_processes import follow_parent


class Job(NamedTuple):
    """What to do ("train", "score", "accuracy", "own"), with which slot or chunk, which client, in which round.

    With "own" a client's own data is scored, losses clipped at ``bound``; ``place`` is 0 for one minibatch of it.
    """

    kind: str
    place: int = 0
    client: int = 0
    number: int = 0
    protection: ClientNoise | None = None
    bound: float = 0.0


class Desk:
    """What a worker has in front of it: its trainer, and the tensors it shares with the others."""

    def __init__(
        self, net: nn.Module, data: ClientData, plan: LocalPlan, seed: int, memory: OptimizerMemory,
        model: torch.Tensor, updates: torch.Tensor,
    ) -> None:  # fmt: skip
        self._trainer = ClientTrainer(net, data, plan, seed)
        self._memory, self._model, self._updates = memory, model, updates

    def do(self, job: Job) -> Any:
        """Carry out one job; training results go into the shared updates."""
        kind, place, client, number, protection, bound = job
        if kind == "score":
            return self._trainer.score(self._model, place)
        if kind == "accuracy":
            return self._trainer.accuracy(self._model, client)
        if kind == "own":
            return self._trainer.own_score(self._model, client, bound, None if place else number)
        slots, steps = self._memory.of(slice(client, client + 1))  # views: training writes into them
        self._updates[place] = self._trainer.train(self._model, client, number, slots, steps, protection)
        return None


class Workers:
    """A fixed number of processes that take jobs from a list, longest first; with one, the caller does the work."""

    def __init__(self, count: int, desk: Callable[[], Desk]) -> None:
        set_up_torch()  # as in the processes
        self._desk = desk() if count == 1 else None
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        context = tmp.get_context("spawn")
        for _ in range(count if count > 1 else 0):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, desk), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def run(self, jobs: list[Job]) -> list[Any]:
        """Return the answers in the order of the jobs."""
        if self._desk is not None:
            return [self._desk.do(job) for job in jobs]
        answers: list[Any] = [None] * len(jobs)
        waiting = list(enumerate(jobs))[::-1]
        busy: dict[Connection, int] = {}
        idle = list(self._pipes)
        while waiting or busy:
            while waiting and idle:
                number, job = waiting.pop()
                pipe = idle.pop()
                try:
                    pipe.send(job)
                except OSError:
                    raise _died() from None
                busy[pipe] = number
            for ready in wait(list(busy)):
                pipe = next(p for p in busy if p is ready)
                try:
                    failed, answer = pipe.recv()
                except (EOFError, OSError):
                    raise _died() from None
                if failed:
                    raise WorkerError(f"a training process failed: {answer}")
                answers[busy.pop(pipe)] = answer
                idle.append(pipe)
        return answers

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
        self._pipes, self._processes = [], []


def _died() -> WorkerError:
    return WorkerError(
        "a training process died (out of memory, or a script without an 'if __name__ == \"__main__\"' guard?); "
        "run again, with fewer jobs, to resume"
    )


def _serve(pipe: Connection, desk: Callable[[], Desk]) -> None:
    follow_parent()
    set_up_torch()
    place = desk()
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            pipe.send((False, place.do(job)))
        except Exception as error:  # the parent reports it in one line
            pipe.send((True, f"{type(error).__name__}: {error}"))
