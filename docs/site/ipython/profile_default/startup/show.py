"""How the site shows what its examples make: charts in the page's own colours, reports by a link to them."""

import hashlib
import itertools
import json
import os
import shutil
from pathlib import Path, PosixPath

import altair as alt
import vl_convert

from evenhand.report.charts.registry import fitted
from evenhand.report.charts.theme import PAGE, theme
from evenhand.report.pages import VEGA_LITE

numbers = itertools.count()


def draw(spec, **_):
    own = {name: part for name, part in spec.items() if name != "config"}  # that of a chart on white paper
    image = vl_convert.vegalite_to_svg(json.dumps(own), vl_version=VEGA_LITE, config=theme(PAGE), allowed_base_urls=[])
    return {"text/html": f'<div class="chart">{fitted(image).replace("clip", f"chart-{next(numbers)}-clip")}</div>'}


def link(path):
    if path.suffix != ".html" or not path.exists():
        return None
    folder = Path(os.environ["SITE"]) / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{path.stem}-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}.html"
    shutil.copy(path, folder / name)
    return f'<a class="report" href="reports/{name}">Open the report that this wrote</a>'


alt.renderers.register("site", draw)
alt.renderers.enable("site")
get_ipython().display_formatter.formatters["text/html"].for_type(PosixPath, link)  # noqa: F821  (IPython has it)
