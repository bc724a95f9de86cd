"""The report, as text and in a real browser: it answers, it asks nothing of any network, and no label is ever markup."""

import base64
import contextlib
import gzip
import json
import pickle
import re
import shlex
from dataclasses import dataclass, field

import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.findings import Findings
from evenhand.report import explorer
from evenhand.report import page as report
from evenhand.report import reproduce as again
from evenhand.report.pages import vega
from evenhand.report.words import summary
from evenhand.report.words.sentences import headline_for
from evenhand.report.words.text import percent
from made_findings import HOSTILE, amounts, audited, binned, decomposed, findings_of, hostile, sources, undefined

SHAPES = {
    "three slices": lambda: audited().findings,
    "no slices": lambda: audited(None).findings,
    "200 slices": lambda: audited(tuple(f"s{i}" for i in range(200)), units=50).findings,
    "one unit": lambda: audited(("a", "b"), units=1, interval=None).findings,
    "all equal": lambda: eh.inequality(pl.DataFrame({"u": range(9), "x": [4] * 9}), unit="u", amount="x", population=None,
                                       interval="normal").findings,
    "nobody got anything": lambda: eh.inequality(pl.DataFrame({"u": range(9), "x": [0] * 9}), unit="u", amount="x",
                                                 population=None, interval=None).findings,
    "undefined": undefined,
    "sources": sources,
    "decompose": decomposed,
    "bins": binned,
    "hostile": hostile,
    "an audit without charts of its own": lambda: findings_of("novel", [{"metric": "some_gap", "group": g, "estimate": v}
                                                                         for g, v in (("a", 0.1), ("b", -0.2))]),
}  # fmt: skip


CUT = HOSTILE[:12]
"""As much of a hostile label as surely fits beside an axis."""


@dataclass
class Visit:
    """An open page and everything it said or asked for."""

    page: object
    urls: list = field(default_factory=list)
    said: list = field(default_factory=list)

    def sentence(self):
        return self.page.locator("#reading").inner_text()

    def texts(self, selector):
        return self.page.locator(selector).all_text_contents()


@contextlib.contextmanager
def visit(browser, path, **context):
    """Open a file without a network and wait until every chart is drawn."""
    opened = browser.new_context(offline=True, **context)
    seen = Visit(opened.new_page())
    seen.page.on("request", lambda request: seen.urls.append(request.url))
    seen.page.on("console", lambda message: seen.said.append(message.text))
    seen.page.on("pageerror", lambda error: seen.said.append(str(error)))
    seen.page.on("dialog", lambda dialog: (seen.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    seen.page.goto(path.as_uri())
    seen.page.wait_for_selector("body[data-ready], body[data-failed]", timeout=120_000)
    assert seen.page.evaluate("document.body.dataset.failed") is None
    yield seen
    opened.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write the report of a shape once."""
    folder, done = tmp_path_factory.mktemp("reports"), {}

    def write(shape):
        if shape not in done:
            done[shape] = folder / f"{len(done)}.html"
            done[shape].write_text(report.html(SHAPES[shape]()), encoding="utf-8")
        return done[shape]

    return write


def test_the_page_holds_everything_that_was_asked_for(written):
    text = written("three slices").read_text(encoding="utf-8")
    for part in ("answer", "explorer", "intervals", "table", "cards", "dropped", "provenance", "again"):
        assert f'id="{part}"' in text, part
    assert "How unevenly is it spread?" in text
    assert "How other tools differ" in text
    assert "holisticai divides by n - 1" in text
    assert "No row was dropped." in text


def test_what_was_dropped_is_listed_with_its_reason():
    page = report.html(sources())
    assert "<td>no label</td><td class=n>2</td>" in page


@pytest.mark.parametrize("shape", SHAPES)
def test_a_report_stays_small(written, shape):
    assert written(shape).stat().st_size < 1_000_000


@pytest.mark.slow
def test_ten_thousand_slices_make_a_report_under_three_megabytes():
    rows = [{"by": f"slice {i}", "metric": m, "estimate": i / 10_000, "low": 0.0, "high": 1.0, "units": 5, "note": "heavy_tail"}
            for i in range(10_000) for m in ("gini", "hoover", "theil")]  # fmt: skip
    page = report.html(findings_of("inequality", rows, slices=("by",)))
    assert len(page.encode()) < 3_000_000
    assert "more rows are in the saved result" in page


@pytest.mark.parametrize("shape", SHAPES)
def test_there_is_one_verdict_and_at_most_three_findings_beside_it(written, shape):
    page = written(shape).read_text(encoding="utf-8")
    assert page.count('class="verdict"') == 1
    assert re.search(r'<p class="verdict">[^<]+</p>', page)
    short = re.search(r'<ul class="answer">(.*?)</ul>', page, re.DOTALL)
    assert short is None or short[1].count("<li>") <= 3


def test_sections_come_in_the_order_of_a_readers_questions(written):
    page = written("three slices").read_text(encoding="utf-8")
    assert re.findall(r'<section id="(\w+)"', page) == ["answer", "sure", "pictures", "table", "dropped", "provenance"]
    assert re.findall(r'<a href="#(\w+)"', page) == ["answer", "sure", "pictures", "table", "dropped", "provenance"]


def test_the_verdict_counts_the_units_of_the_top_and_names_both_ends():
    found = audited(units=500).findings
    held = {r["source"]: r["estimate"] for r in found.rows() if r["metric"] == "top_share(p=0.01)"}
    most, least = max(held, key=held.get), min(held, key=held.get)
    says = headline_for(found).text
    ends = f"from {held[least]:.0%} ({least}) to {held[most]:.0%} ({most})"
    assert says == f"The top 1% of authors (5 of 500) get {ends} of all impressions."


def test_a_caution_stands_once_at_the_top_and_large_figures_beside_it(written):
    page = written("no slices").read_text(encoding="utf-8")
    text = re.sub(r'<script.*?</script>|title="[^"]*"|data-more="[^"]*"', "", page, flags=re.DOTALL)
    care = re.findall(r'<p class="care">([^<]*)</p>', text)
    assert care
    assert all(text.count(line.partition(": ")[2]) <= 2 for line in care)  # once, and in the paragraph to copy
    assert text.index('class="care"') < text.index('id="sure"')
    assert 1 <= text.count("<small>") <= 3
    assert 'id="paragraph"' in text
    assert '<svg class="bar"' in text


def test_few_findings_are_all_said_and_many_are_summed_up():
    few, many = audited(None), audited()
    assert summary.key_sentences(few.findings) == few.sentences()[: len(few.findings)]
    lines = summary.key_sentences(many.findings)
    assert len(lines) == 6
    share = [r["estimate"] for r in many.findings.rows() if r["metric"] == "top_share(p=0.01)"]
    top = next(line for line in lines if line.startswith("Share of the top 1%: "))
    assert f"{min(share):.0%}" in top
    assert f"{max(share):.0%}" in top


def test_amounts_do_not_share_a_range():
    rows = [{"amount": a, "day": d, "metric": "gini", "estimate": e} for a, e0 in (("stars", 0.9), ("forks", 0.2))
            for d, e in enumerate((e0, e0 + 0.01, e0 + 0.02, e0 + 0.03, e0 + 0.04))]  # fmt: skip
    first, second = summary.key_sentences(findings_of("inequality", rows, slices=("amount", "day")))
    assert first == "Gini index: 0.90 (stars, day 0) to 0.94 (stars, day 4)."
    assert second == "Gini index: 0.20 (forks, day 0) to 0.24 (forks, day 4)."


def test_warnings_say_how_many_numbers_they_concern():
    rows = [{"metric": "gini", "estimate": 0.5, "note": "heavy_tail"}, {"metric": "hoover", "estimate": 0.5}]
    lines = [line for _, line in summary.cautions(findings_of("inequality", rows))]
    assert any("1 of 2 numbers" in line and "too short" in line for line in lines)
    assert any("There are no intervals" in line for line in lines)


def test_two_results_are_compared_in_words():
    few, many = (audited(None, units=n, interval="percentile(99)") for n in (300, 400))
    result = eh.compare(few, many, independent=True)
    said = dict(zip(result.findings.columns["metric"], result.sentences(), strict=True))
    first, second = (f.findings.columns["estimate"][2] for f in (few, many))
    top = said["top_share(p=0.01)"]
    assert top.startswith(f"Share of the top 1% is {percent(first)} in a and {percent(second)} in b")
    assert "points (95% interval" in top
    assert summary.key_sentences(result.findings) == result.sentences()


def test_many_compared_numbers_are_summed_up_with_the_surest_first():
    rows = [{"by": str(i), "metric": "gini", "estimate": 0.1, "a": 0.5, "b": 0.4, "p": i / 20, "p_adjusted": min(1.0, i)}
            for i in range(20)]  # fmt: skip
    found = findings_of("compare", rows, slices=("by",), extra=("a", "b", "p", "p_adjusted"))
    first, second, *_ = summary.key_sentences(found)
    assert first == "1 of 20 differences are statistically significant (Holm-adjusted p of at most 5%)."
    assert second.startswith("For by 0: Gini index is 0.5 in a and 0.4 in b")


def test_the_command_in_the_report_makes_the_same_numbers_again(tmp_path, capsys):
    table = tmp_path / "events of today.csv"
    pl.DataFrame({"author": [1, 1, 2, 3], "views": [5, 1, 2, 1], "from": list("xyxy")}).write_csv(table)
    asked = {"unit": "author", "amount": "views", "population": 9, "by": "from", "interval": "percentile(50)", "rng": 3}
    first = eh.inequality(str(table), metrics=["gini", "top_share(p=0.1)"], **asked)
    ways = dict(again.ways(first.findings))
    words = shlex.split(ways["On the command line:"])
    assert words[0] == "evenhand"
    assert main([*words[1:], "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == first.to_dict()["columns"]
    scope = {}
    exec("result = " + ways["In Python:"].partition("\n\n")[2], {"eh": eh}, scope)
    assert scope["result"].to_dict()["columns"] == first.to_dict()["columns"]
    plan = tmp_path / "plan.toml"
    plan.write_text(ways["As a plan for `evenhand run plan.toml`:"], encoding="utf-8")
    assert main(["run", str(plan), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == first.to_dict()["columns"]


def test_a_table_in_memory_is_made_again_in_python_only():
    ways = again.ways(audited().findings)
    assert [lead for lead, _ in ways] == ["In Python, where table is a polars DataFrame:"]
    assert "population=None" in ways[0][1]


def test_no_script_in_the_page_can_be_ended_by_a_label():
    page = report.html(hostile()).replace(vega(), "")
    assert HOSTILE not in page
    assert "<img" not in page
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 3
    data = json.loads(gzip.decompress(base64.b64decode(scripts[0])))
    assert HOSTILE in json.dumps(data), "what the charts hold is packed, and so never markup"
    assert len([name for name in data if name.startswith("spec-")]) > 3


def test_a_report_read_back_from_json_is_the_same():
    found = audited().findings
    assert report.html(Findings.from_dict(json.loads(json.dumps(found.to_dict())))) == report.html(found)


@pytest.mark.browser
@pytest.mark.parametrize("shape", SHAPES)
def test_the_page_is_silent_and_asks_for_nothing(browser, written, shape):
    path = written(shape)
    with visit(browser, path) as seen:
        assert seen.urls == [path.as_uri()]
        assert seen.said == []
        drawn, places = seen.page.locator(".draw svg").count(), seen.page.locator("[data-spec]").count()
        assert drawn == places > 0


FOLD = {"width": 1280, "height": 800}


@pytest.mark.browser
@pytest.mark.parametrize("shape", SHAPES)
def test_the_verdict_and_its_picture_stand_above_the_fold(browser, written, shape):
    with visit(browser, written(shape), viewport=FOLD) as seen:
        boxes = [seen.page.locator(".verdict").bounding_box()]
        boxes += [box.bounding_box() for box in seen.page.locator(".first figure .draw svg").all()]
        assert all(box["y"] + box["height"] <= FOLD["height"] for box in boxes), boxes


@pytest.mark.browser
@pytest.mark.parametrize("shape", SHAPES)
def test_every_chart_is_there_without_scripts(browser, written, shape):
    opened = browser.new_context(offline=True, java_script_enabled=False)
    page = opened.new_page()
    page.goto(written(shape).as_uri())
    places = page.locator("[data-spec]").all()
    assert places
    for place in places:
        box = place.locator("svg").bounding_box()
        assert box["width"] > 100
        assert box["height"] > 50
    if shape == "no slices":
        assert page.locator("#reading").inner_text() == expected(amounts(400, seed=0, spread=1), 0.01)
        assert not page.locator("#top").is_visible(), "a slider without scripts would do nothing"
    opened.close()


@pytest.mark.browser
def test_the_switch_of_colours_wins_over_the_system(browser, written):
    ground = "getComputedStyle(document.body).backgroundColor"
    with visit(browser, written("no slices"), color_scheme="dark") as seen:
        dark = seen.page.evaluate(ground)
        seen.page.select_option("#colours", "light")
        assert seen.page.evaluate(ground) == "rgb(255, 255, 255)"
        seen.page.select_option("#colours", "")
        assert seen.page.evaluate(ground) == dark


@pytest.mark.browser
@pytest.mark.parametrize("shape", SHAPES)
def test_regions_have_names_of_their_own_and_pictures_a_description(browser, written, shape):
    """What axe calls landmark-unique, svg-img-alt and scrollable-region-focusable."""
    with visit(browser, written(shape)) as seen:
        marks = seen.page.locator("nav, main, section[aria-label], section[aria-labelledby], [role=region]")
        names = [seen.page.evaluate("(e) => e.ariaLabel || document.getElementById(e.getAttribute('aria-labelledby'))?.textContent || e.tagName", e)
                 for e in marks.element_handles()]  # fmt: skip
        assert len(names) == len(set(names))
        bare = "svg:not(.bar), [role=graphics-document], [role=graphics-symbol]"
        hidden = f"[...document.querySelectorAll('{bare}')].every((e) => e.closest('[aria-hidden=true]') && e.closest('[role=img][aria-label]'))"
        assert seen.page.evaluate(hidden)
        ids = seen.page.evaluate("[...document.querySelectorAll('main [id]')].map((e) => e.id)")
        assert len(ids) == len(set(ids))
        boxes = seen.page.locator(".scroll").all()
        assert all(box.get_attribute("tabindex") == "0" and box.get_attribute("aria-label") for box in boxes)


@pytest.mark.browser
def test_rows_are_searched_and_unfold(browser, written):
    with visit(browser, written("three slices")) as seen:
        rows = seen.page.locator("#table tbody tr")
        rows.first.click()
        assert seen.page.locator("#table tr.more").count() == 1
        assert "(95% interval" in seen.page.locator("#table tr.more").inner_text()
        seen.page.locator("#table .find").fill("search")
        assert all("search" in row.inner_text() for row in rows.all() if row.is_visible())


@pytest.mark.browser
def test_the_browser_itself_refuses_any_request(browser, written):
    asks = """() => new Promise((done) => {
        document.addEventListener('securitypolicyviolation', (event) => done(event.violatedDirective));
        fetch('https://example.invalid/').catch(() => {});
    })"""
    with visit(browser, written("no slices")) as seen:
        assert seen.page.evaluate(asks) == "connect-src"


def expected(x, top, units="authors", amount="impressions", name=""):
    held, equal = eh.metrics.top_share(x, top), eh.metrics.equivalent_to_top(x, top)
    said = f"{f'For {name}, the' if name else 'The'} top {float(f'{100 * top:.3g}'):g}% of {units} ({round(top * len(x)):,} of {len(x):,})"
    others = "more than all others together" if equal > 1 - top else f"as much as the bottom {percent(equal)}"
    return f"{said} get {percent(held)} of all {amount}, {others}."


@pytest.mark.browser
def test_the_explorer_says_what_the_metrics_say(browser, written):
    x = amounts(400, seed=0, spread=1)
    sizes = explorer.data(audited(None).findings)["stops"]
    with visit(browser, written("no slices")) as seen:
        slider = seen.page.locator("#top")
        assert seen.sentence() == expected(x, 0.01), "it starts at the top 1%"
        for i, top in enumerate(sizes):
            slider.evaluate("(e, i) => { e.value = i; e.dispatchEvent(new Event('input')); }", i)
            assert seen.sentence() == expected(x, top)


@pytest.mark.browser
def test_the_explorer_is_exact_on_data_whose_curve_was_thinned(browser, tmp_path):
    x = [float(v) for v in pl.Series(range(1, 20_001)).cast(pl.Float64) ** 2.5]
    table = pl.DataFrame({"author": range(len(x)), "impressions": x})
    result = eh.inequality(table, unit="author", amount="impressions", population=None, interval=None)
    assert len(result.findings.curves["lorenz"]["share"]) < 2000
    path = result.report(tmp_path / "large.html")
    sizes = explorer.data(result.findings)["stops"]
    with visit(browser, path) as seen:
        for i in range(0, len(sizes), 5):
            seen.page.locator("#top").evaluate("(e, i) => { e.value = i; e.dispatchEvent(new Event('input')); }", i)
            assert seen.sentence() == expected(x, sizes[i])


@pytest.mark.browser
def test_the_explorer_follows_the_chosen_slice(browser, written):
    with visit(browser, written("three slices")) as seen:
        for i, name in enumerate(("home", "search", "out of network")):
            seen.page.select_option("#which", label=name)
            assert seen.sentence() == expected(amounts(400, seed=i, spread=1 + 0.3 * i), 0.01, name=name)


@pytest.mark.browser
def test_the_explorer_works_from_the_keyboard_and_is_announced(browser, written):
    with visit(browser, written("no slices")) as seen:
        slider = seen.page.get_by_role("slider", name="Size of the top")
        slider.focus()
        assert slider.get_attribute("aria-valuetext") == "top 1%"
        seen.page.keyboard.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") == "top 1.25%"
        assert seen.sentence().startswith("The top 1.25% of authors (5 of 400)")
        seen.page.keyboard.press("End")
        assert seen.sentence().startswith("The top 90% of authors")
        reading = seen.page.locator("#reading")
        assert reading.get_attribute("aria-live") == "polite"
        assert slider.get_attribute("aria-describedby") == "reading"


@pytest.mark.browser
def test_dragging_on_the_chart_moves_the_handle(browser, written):
    with visit(browser, written("no slices")) as seen:
        chart = seen.page.locator("#spec-explorer-chart svg")
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        seen.page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 200)
        seen.page.mouse.down()
        seen.page.mouse.move(box["x"] + box["width"] * 0.55, box["y"] + 200)
        seen.page.mouse.up()
        top = float(re.match(r"The top ([\d.]+)%", seen.sentence())[1])
        assert 2 <= top <= 20, "the middle of a log axis"
        assert seen.page.evaluate("String(getSelection())") == "", "dragging selects no text"
        moved = seen.texts("#spec-explorer-chart svg text")
        assert f"top {top:g}%" in moved


@pytest.mark.browser
def test_hostile_labels_are_text_and_nothing_else(browser, written):
    with visit(browser, written("hostile")) as seen:
        page = seen.page
        assert page.locator("img").count() == 0
        assert HOSTILE in page.locator("h1").inner_text()
        assert HOSTILE in page.locator("#which option").all_text_contents()
        assert any(t.startswith(CUT) for t in seen.texts("#intervals svg text"))
        for text in ("🦊 fox", "مرحبا", "\"quoted\" & 'single'", "a.b[0]:c", "{{braces}} ${x}"):
            assert text in page.locator("#table td").all_text_contents(), text
        page.locator("#intervals .draw svg path[aria-roledescription='point'], #intervals .draw svg path").first.hover(
            force=True
        )
        assert page.locator("img").count() == 0
        assert seen.said == []


@pytest.mark.browser
def test_every_chart_has_its_table_and_a_description(browser, written):
    for shape in ("three slices", "decompose", "bins"):
        with visit(browser, written(shape)) as seen:
            figures = seen.page.locator("figure").all()
            assert figures
            for figure in figures:
                assert figure.locator("table tbody tr").count() > 0
            described = seen.page.get_by_role("img").filter(has=seen.page.locator("[data-spec]"))
            assert described.count() == seen.page.locator("[data-spec]").count()
            assert all(len(place.get_attribute("aria-label")) > 20 for place in described.all())


@pytest.mark.browser
@pytest.mark.parametrize("shape", ["three slices", "bins", "hostile", "200 slices"])
def test_a_narrow_screen_needs_no_sideways_scrolling(browser, written, shape):
    with visit(browser, written(shape), viewport={"width": 360, "height": 700}) as seen:
        wide, room = seen.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= room
        boxes = seen.page.locator(".draw svg").all()
        assert all(box.bounding_box()["width"] <= 360 for box in boxes)


@pytest.mark.browser
def test_charts_follow_the_dark_setting_and_print_on_white(browser, written):
    colour = "(e) => getComputedStyle(e).fill"
    ground = "getComputedStyle(document.body).backgroundColor"
    with visit(browser, written("three slices"), color_scheme="dark") as seen:
        label = seen.page.locator("#intervals svg .role-axis-label text").first
        assert seen.page.evaluate(ground) == "rgb(18, 24, 31)"
        dark = label.evaluate(colour)
        seen.page.emulate_media(color_scheme="dark", media="print")
        assert seen.page.evaluate(ground) == "rgb(255, 255, 255)"
        assert label.evaluate(colour) != dark
        assert not seen.page.locator("#top").is_visible(), "a slider is no use on paper"
        assert seen.page.locator("#reading").is_visible()


@pytest.mark.browser
def test_the_printed_page_shows_every_row_of_the_table(browser, written, tmp_path):
    with visit(browser, written("three slices"), viewport={"width": 720, "height": 1000}) as seen:
        seen.page.emulate_media(media="print")
        box, inside = seen.page.locator("#table .scroll"), seen.page.locator("#table table")
        assert box.bounding_box()["height"] >= inside.bounding_box()["height"] - 1
        assert inside.bounding_box()["width"] <= 720
        printed = tmp_path / "report.pdf"
        seen.page.pdf(path=printed)
        assert printed.read_bytes().startswith(b"%PDF")


@pytest.mark.browser
def test_a_chart_saved_as_html_is_silent_too(browser, tmp_path):
    from evenhand.report.charts.registry import draw, save

    path = save(draw(hostile(), "intervals"), tmp_path / "chart.html")
    with visit(browser, path) as seen:
        assert seen.urls == [path.as_uri()]
        assert seen.said == []
        assert any(text.startswith(CUT) for text in seen.texts("svg text"))


def test_a_report_with_slices_has_the_whole_as_well(tmp_path):
    log = pl.DataFrame(
        {"who": list(range(40)) * 2, "views": [*range(40), *range(40, 80)], "source": ["a"] * 40 + ["b"] * 40}
    )
    ask = {"unit": "who", "amount": "views", "population": None, "metrics": "gini", "rng": 1}
    result = eh.inequality(log, by="source", **ask)
    page = result.report(tmp_path / "report.html").read_text()
    whole = eh.inequality(log, **ask)
    assert f"Overall: {whole.headline}" in page
    assert "<td>all</td><td>gini</td>" in page
    assert f"<b>{whole.frame['estimate'][0]:.2f}</b>" in page
    assert len(result.frame) == 2, "the frame has the slices only"
    assert pickle.loads(pickle.dumps(result)).to_dict() == result.to_dict()


def test_under_min_units_the_whole_is_not_told(tmp_path):
    log = pl.DataFrame({"who": list(range(80)), "views": range(1, 81), "source": ["a"] * 40 + ["b"] * 40})
    result = eh.inequality(log, unit="who", amount="views", population=None, by="source", metrics="gini", min_units=10)
    assert "Overall:" not in result.report(tmp_path / "report.html").read_text()


def test_large_numbers_over_all_slices_say_so_beside_a_headline_about_slices(tmp_path):
    table = pl.DataFrame({"author": range(40), "views": [i * i for i in range(40)], "side": ["a", "b"] * 20})
    roles = {"unit": "author", "amount": "views", "population": None, "metrics": ["top_share(p=0.2)"], "interval": None}
    for by, ending in (("side", ", overall"), (None, "")):
        eh.inequality(table, **roles, by=by).report(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        figures = re.search(r'<div class="figures">(.*?)</span>', page, re.DOTALL)[1]
        assert figures.endswith(f"Share of the top 20%{ending}")
