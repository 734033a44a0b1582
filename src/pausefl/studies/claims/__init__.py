"""The paper's claims, judged by runs: what was tested, what was measured, and whether it holds."""
