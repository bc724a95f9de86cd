"""Small tables in the style of public data sets, each with the command that `look` should propose first."""

import random

import polars as pl

RNG = random.Random(5)
SHARES = [int(100_000 / (i + 1) ** 1.2) + 1 for i in range(60)]
"""Amounts as they are usually spread: few have most."""


def _ratings():
    rows = [(u, 1000 + m, RNG.choice([1.0, 3.5, 5.0]), 964_980_000 + 7 * u + m) for u in range(60) for m in {*RNG.choices(range(60), SHARES, k=9)}]  # fmt: skip
    return pl.DataFrame(rows, schema=["userId", "movieId", "rating", "timestamp"], orient="row")


def _ab_log():
    arms = [RNG.choice(["control", "new_feed"]) for _ in range(300)]
    cookies = [RNG.randrange(300) for _ in range(2000)]
    return pl.DataFrame(
        {
            "date": [f"2026-03-{RNG.randrange(1, 15):02d}" for _ in cookies],
            "cookie_id": [f"c{c:04x}" for c in cookies],
            "variant": [arms[c] for c in cookies],
            "creator_id": [f"cr{i}" for i in RNG.choices(range(60), SHARES, k=2000)],
            "impressions": [RNG.randrange(1, 6) for _ in cookies],
        }
    )


def _apps():
    genres = ["Games", "Finance", "Health"] * 20
    return pl.DataFrame(
        {
            "": range(60),
            "id": [284_000_000 + 17 * i for i in range(60)],
            "track_name": [f"App {i % 55}" for i in range(60)],
            "size_bytes": [10**7 + i * i for i in range(60)],
            "price": [0.99 * (i % 3) for i in range(60)],
            "rating_count_tot": SHARES,
            "user_rating": [1 + i % 5 for i in range(60)],
            "prime_genre": genres,
        }
    )


def _charts():
    days = [(f"2021-01-{d:02d}", region) for d in range(1, 8) for region in ("us", "de", "fr")]
    rows = [
        (f"Song {s}", r, day, f"Artist {s % 25}", region, 10**6 // r)
        for day, region in days
        for r, s in enumerate(RNG.sample(range(80), 30), 1)
    ]
    return pl.DataFrame(rows, schema=["title", "rank", "date", "artist", "region", "streams"], orient="row")


def _recidivism():
    scores = [RNG.randrange(1, 11) for _ in range(900)]
    return pl.DataFrame(
        {
            "id": range(1, 901),
            "age": [RNG.randrange(18, 70) for _ in scores],
            "race": [RNG.choice(["African-American", "Caucasian", "Hispanic"]) for _ in scores],
            "decile_score": scores,
            "score_text": ["Low" if s < 5 else "High" for s in scores],
            "two_year_recid": [int(RNG.random() < s / 12) for s in scores],
        }
    )


def _repos():
    return pl.DataFrame(
        {
            "rank": range(1, 61),
            "full_name": [f"org{i % 9}/repo{i}" for i in range(60)],
            "language": ["Python", "Rust", "Go"] * 20,
            "stars": SHARES,
            "created_at": [f"2019-0{i % 9 + 1}-01" for i in range(60)],
        }
    )


def _searches():
    kinds = [RNG.choice(["news", "blog", "shop"]) for _ in range(200)]
    rows = [
        (f"s{q // 2}", f"q{q}", p, f"d{d}", kinds[d], int(RNG.random() < 0.5 / p), "mobile" if q % 2 else "desktop")
        for q in range(40)
        for p, d in enumerate(RNG.sample(range(200), 10), 1)
    ]
    names = ["session_id", "query_id", "pos", "doc_id", "site_type", "clicked", "device"]
    return pl.DataFrame(rows, schema=names, orient="row")


def _hiring():
    rows = [(f"C{i:04d}", RNG.choice("FM"), round(RNG.gauss(60, 15), 1), RNG.choice(["Yes", "No"])) for i in range(600)]
    return pl.DataFrame(rows, schema=["candidate_id", "gender", "interview_score", "hired"], orient="row")


def _issues():
    opens = [s // 40 for s in SHARES]
    return pl.DataFrame(
        {
            "issue": range(1, 61),
            "author": [f"Writer {i % 15}" for i in range(60)],
            "sent_on": [f"2025-{1 + i % 12:02d}-05" for i in range(60)],
            "open_rate": [o / 5000 for o in opens],
            "opens": opens,
        }
    )


def _orders():
    sellers, prices = RNG.choices(range(60), SHARES, k=900), [round(RNG.uniform(3, 90), 2) for _ in range(900)]
    return pl.DataFrame(
        {
            "order_id": [f"O{i:06d}" for i in range(900)],
            "seller_id": [f"S{s:03d}" for s in sellers],
            "category": [RNG.choice(["Home", "Toys", "Books"]) for _ in sellers],
            "unit_price": prices,
            "line_total": [2 * p for p in prices],
        }
    )


def _papers():
    return pl.DataFrame(
        {
            "paper_id": [f"{RNG.getrandbits(64):016x}" for _ in SHARES],
            "title": [f"A study of things {i % 50}" for i in range(60)],
            "year": [1990 + i % 30 for i in range(60)],
            "venue": ["KDD", "WWW", "SIGIR"] * 20,
            "n_citation": SHARES,
        }
    )


def _credit():
    rows = [(RNG.random(), RNG.random(), i % 2) for i in range(200)]
    return pl.DataFrame(rows, schema=["CreditAmount", "score", "sex"], orient="row")


def _applications():
    rows = [(f"B{i}", RNG.choice("wm"), round(RNG.gauss(60, 12), 1), RNG.choice(["ja", "nein"])) for i in range(300)]
    return pl.DataFrame(rows, schema=["Bewerbernr", "Geschlecht", "Eignungstest", "Eingeladen"], orient="row")


def _reads():
    rows = [(f"Autor {i}", RNG.choice(["Opinión", "Deportes"]), RNG.randrange(1, 900)) for i in RNG.choices(range(60), SHARES, k=400)]  # fmt: skip
    return pl.DataFrame(rows, schema=["autor", "sección", "lecturas"], orient="row")


def _judged_scores():
    rows = [
        (q, f"d{q}_{d}", RNG.choice([0, 0, 1, 2]), round(RNG.gauss(0, 1), 4), RNG.choice(["female", "male"]))
        for q in range(40)
        for d in range(12)
    ]
    return pl.DataFrame(rows, schema=["qid", "docid", "label", "pred", "author_gender"], orient="row")


PUBLIC = {
    "applications": (
        _applications,
        "outcome-test --score Eignungstest --outcome Eingeladen --group Geschlecht --positive ja",
    ),
    "reads": (_reads, "inequality --unit autor --amount lecturas --by sección"),
    "judged_scores": (
        _judged_scores,
        "pairwise --groups author_gender --relevance label --request qid --item docid --score pred",
    ),
    "ratings": (_ratings, "inequality --unit movieId --amount none"),
    "ab_log": (_ab_log, "experiment --unit creator_id --amount impressions --arm variant --randomized cookie_id"),
    "apps": (_apps, "inequality --unit id --amount rating_count_tot --by prime_genre"),
    "charts": (_charts, "inequality --unit artist --amount streams --by region"),
    "recidivism": (_recidivism, "outcome-test --score decile_score --outcome two_year_recid --group race"),
    "github": (_repos, "inequality --unit full_name --amount stars --by language"),
    "search_log": (_searches, "exposure --groups site_type --request query_id --rank pos --item doc_id"),
    "hiring": (_hiring, "outcome-test --score interview_score --outcome hired --group gender --positive Yes"),
    "newsletter": (_issues, "inequality --unit author --amount opens"),
    "orders": (_orders, "inequality --unit seller_id --amount line_total --by category"),
    "papers": (_papers, "inequality --unit paper_id --amount n_citation --by venue"),
    "credit": (_credit, "prefix --group sex --score score --request none"),
}
