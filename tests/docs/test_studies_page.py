"""The table from the paper's figures to studies names studies and charts that are there, and all of them."""

import re
from pathlib import Path

from pausefl.studies.load import load_study, names_beyond_the_paper, study_names
from pausefl.studies.results_page import CHARTS

PAGE = (Path(__file__).parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")


def test_every_figure_of_the_paper_has_its_study_and_its_chart() -> None:
    rows = re.findall(r"^\| (Fig\. \d+|Table I|Theorem 1) \| `(.+?)` \| (.+?) \|$", PAGE, re.M)
    figures = [name for name, _, _ in rows if name.startswith("Fig.")]
    assert figures == [f"Fig. {number}" for number in range(1, 16)]
    for name, study, chart in rows:
        drawn = {CHARTS.get(figure) for figure in load_study(study).about.figures}
        assert chart == "all of its report" or chart.strip("`") in drawn, name
    named = {(study, chart.strip("`")) for _, study, chart in rows if chart.startswith("`")}
    trained = [name for name in study_names() if name not in names_beyond_the_paper()]
    pictured = {(s, CHARTS[f]) for s in trained for f in load_study(s).about.figures if f in CHARTS}
    published = {"published-cifar", "published-mnist"}  # of the code that came with the paper, not of its figures
    assert named == {one for one in pictured if one[0] not in published}
