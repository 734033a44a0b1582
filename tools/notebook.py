"""Runs a notebook's cells in order, in one scope, and returns what each printed: no kernel, no network.

    python tools/notebook.py examples/tutorial.ipynb

writes into the notebook what its cells really print and show.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def play(path: Path) -> list[list[dict[str, Any]]]:
    """Return the outputs of each code cell, as a notebook stores them; the current folder is where files go."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [_run("".join(cell["source"]), scope) for cell in cells if cell["cell_type"] == "code"]


def _run(source: str, scope: dict[str, Any]) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = None
    if tree.body and isinstance(end := tree.body[-1], ast.Expr):
        tree.body.pop()
        last = ast.Expression(end.value)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), scope)
        value = None if last is None else eval(compile(last, "cell", "eval"), scope)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        shown = {"text/plain": [repr(value)]}
        if hasattr(value, "_repr_svg_"):
            shown["image/svg+xml"] = value._repr_svg_().splitlines(keepends=True)
        outputs.append({"data": shown, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return outputs


def main(path: Path) -> None:
    """Store the outputs in the notebook."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(code, play(path), strict=True), start=1):
        cell["execution_count"] = number
        for output in outputs:
            if output["output_type"] == "execute_result":
                output["execution_count"] = number
        cell["outputs"] = outputs
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
