"""Tables where they live: a real object store on this machine, Delta and Iceberg tables, each by its path."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import deltalake
import polars as pl
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import evenhand as eh
from evenhand.cli import main
from evenhand.errors import without_keys

SECRET = "hush-hush-hush"
LOG = pl.DataFrame(
    {"author": list("aabcddeff"), "source": list("xyxxyxyxy"), "views": [5, 1, 2, 0, 3, 1, 4, 4, 9]},
)
OTHER = pl.DataFrame({"author": ["a", "b"], "source": ["x", "y"], "views": [100, 1]})
CALL = dict(unit="author", amount="views", population=10, by="source", rng=1, interval="bootstrap(49)")


def asked(table):
    return eh.inequality(table, **CALL)


WANTED = asked(LOG).to_text("csv")


@pytest.fixture(scope="module")
def bucket():
    """A store that speaks S3, in a process of its own; its address and keys are in the environment, as in real life."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"

    def put(key, body=b""):
        request = urllib.request.Request(f"{address}/{key}", data=body, method="PUT")
        request.add_header("Content-Type", "application/octet-stream")
        urllib.request.urlopen(request, timeout=20).close()

    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with pytest.MonkeyPatch.context() as patch:
            _known_to(patch, address)
            _once_it_listens(port)
            put("bucket")
            LOG.head(4).write_parquet("s3://bucket/log/one.parquet")
            LOG.tail(5).write_parquet("s3://bucket/log/two.parquet")
            put("bucket/log.csv", LOG.write_csv().encode())
            put("bucket/log.tsv.gz", gzip.compress(LOG.write_csv(separator="\t").encode()))
            put("bucket/log.jsonl", LOG.write_ndjson().encode())
            where = {"storage_options": {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}}
            deltalake.write_deltalake("s3://bucket/delta", OTHER.to_arrow(), **where)
            deltalake.write_deltalake("s3://bucket/delta", LOG.to_arrow(), mode="overwrite", **where)
            yield "s3://bucket"
    finally:
        server.kill()
        server.wait()


def _known_to(patch, address):
    settings = {"ENDPOINT_URL": address, "ACCESS_KEY_ID": "somebody", "SECRET_ACCESS_KEY": SECRET}
    for name, value in {**settings, "REGION": "us-east-1", "ALLOW_HTTP": "true"}.items():
        patch.setenv(f"AWS_{name}", value)


def _once_it_listens(port):
    for _ in range(600):
        with socket.socket() as line:
            if line.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("the object store did not start")


@pytest.mark.parametrize("name", ["log/*.parquet", "log", "log/", "log.csv", "log.tsv.gz", "log.jsonl", "delta"])
def test_a_path_in_an_object_store_gives_the_bytes_of_the_table(bucket, name):
    found = asked(f"{bucket}/{name}")
    assert found.to_text("csv") == WANTED
    assert found.provenance["plan"]["table"] == f"{bucket}/{name}"
    assert SECRET not in found.to_json()


def test_the_command_line_reads_an_object_store_and_several_paths_of_it(bucket, tmp_path):
    words = [
        "inequality",
        f"{bucket}/log/one.parquet",
        f"{bucket}/log/two.parquet",
        "--unit",
        "author",
        "--amount",
        "views",
    ]
    words += ["--population", "10", "--by", "source", "--seed", "1", "--interval", "bootstrap(49)", "--format", "csv"]
    done = subprocess.run([sys.executable, "-m", "evenhand", *words], capture_output=True, text=True, check=True)
    assert done.stdout == WANTED
    assert SECRET not in done.stderr


def test_an_iceberg_table_in_an_object_store_is_read_by_its_metadata_file(bucket, tmp_path):
    there = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"}
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{bucket}/ice", **there)
    catalog.create_namespace("n")
    table = catalog.create_table("n.log", schema=LOG.to_arrow().schema)
    table.append(LOG.to_arrow())
    catalog.engine.dispose()
    found = asked(table.metadata_location)
    assert found.to_text("csv") == WANTED
    assert SECRET not in str(found.provenance)


@pytest.mark.parametrize("name", ["none.parquet", "none/*.parquet", "none", "none.csv"])
@pytest.mark.parametrize("where", ["", "-of-nobody"])
def test_what_is_not_there_is_said_in_a_sentence_without_the_key(bucket, name, where):
    with pytest.raises(eh.EvenhandError, match=r"is not there\. Check bucket and path\.") as caught:
        asked(f"{bucket}{where}/{name}")
    assert SECRET not in str(caught.value)


class Closed(http.server.BaseHTTPRequestHandler):
    """A store that lets nobody in, and repeats what it was sent."""

    def do_GET(self):
        self.send_response(403)
        self.end_headers()
        self.wfile.write(str(self.headers).encode())

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *words):
        pass


def test_a_store_that_lets_nobody_in_is_said_with_where_keys_belong(monkeypatch):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Closed) as store:
        threading.Thread(target=store.serve_forever).start()
        _known_to(monkeypatch, f"http://127.0.0.1:{store.server_port}")
        with pytest.raises(eh.EvenhandError, match=r"cannot be read .* AWS_\.\.\. variables") as caught:
            asked("s3://bucket/log.parquet")
        store.shutdown()
    assert SECRET not in str(caught.value)
    assert "somebody" not in str(caught.value)


@pytest.mark.parametrize("path", [f"s3://me:{SECRET}@bucket/x.parquet", f"abfss://box@host/x.parquet?sig={SECRET}"])
def test_keys_in_a_path_are_refused_and_not_repeated(path):
    with pytest.raises(eh.EvenhandError, match="in the environment instead") as caught:
        asked(path)
    assert SECRET not in str(caught.value)


def test_a_place_that_is_not_read_is_refused_with_those_that_are():
    with pytest.raises(eh.EvenhandError, match=r"begins with 'ftp://'.* s3://"):
        asked("ftp://host/x.parquet")


def test_a_delta_table_is_its_newest_version_and_not_all_files_in_its_folder(tmp_path):
    path = str(tmp_path / "delta")
    deltalake.write_deltalake(path, OTHER.to_arrow())
    deltalake.write_deltalake(path, LOG.to_arrow(), mode="overwrite")
    assert asked(path).to_text("csv") == WANTED


def test_rows_deleted_from_a_delta_table_do_not_count(tmp_path):
    path = str(tmp_path / "delta")
    deltalake.write_deltalake(path, pl.concat([LOG, OTHER]).to_arrow(), partition_by=["source"])
    deltalake.DeltaTable(path).delete("views = 100")
    deltalake.DeltaTable(path).delete("views = 1 and author = 'b'")
    assert asked(path).to_text("csv") == WANTED


@pytest.fixture
def iceberg(tmp_path):
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=(tmp_path / "w").as_uri())
    catalog.create_namespace("n")
    table = catalog.create_table("n.log", schema=LOG.to_arrow().schema)
    table.append(OTHER.to_arrow())
    table.overwrite(LOG.to_arrow())
    catalog.engine.dispose()
    return table


def test_an_iceberg_table_is_its_newest_state_by_folder_and_by_metadata_file(iceberg, monkeypatch):
    folder = iceberg.location().removeprefix("file://")
    assert asked(folder).to_text("csv") == WANTED
    assert asked(iceberg.metadata_location.removeprefix("file://")).to_text("csv") == WANTED
    monkeypatch.chdir(Path(folder).parent)
    assert asked(Path(folder).name).to_text("csv") == WANTED


def test_two_newest_states_of_an_iceberg_table_are_not_chosen_between(iceberg):
    newest = iceberg.metadata_location.removeprefix("file://")
    twin = newest.replace(".metadata.json", "-twin.metadata.json")
    Path(twin).write_bytes(Path(newest).read_bytes())
    with pytest.raises(eh.EvenhandError, match=r"several newest states .* that your catalogue names"):
        asked(iceberg.location().removeprefix("file://"))


def test_a_damaged_table_is_told_in_a_sentence(tmp_path):
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    (tmp_path / "t" / "_delta_log" / "00000000000000000000.json").write_text("{")
    (tmp_path / "i" / "metadata").mkdir(parents=True)
    (tmp_path / "i" / "metadata" / "00000-x.metadata.json").write_text("{}")
    for name in "ti":
        with pytest.raises(eh.EvenhandError, match=r"cannot be read \(\w+\). Check the path."):
            asked(str(tmp_path / name))


def test_a_hudi_table_is_not_read_as_its_files(tmp_path):
    (tmp_path / ".hoodie").mkdir()
    with pytest.raises(eh.EvenhandError, match="Hudi"):
        asked(str(tmp_path))


def test_a_plan_reads_a_store_as_the_command_line_does_and_repeats_no_key(bucket, tmp_path):
    def ran(table):
        plan = tmp_path / "plan.toml"
        rest = 'audit = "inequality"\nunit = "author"\namount = "views"\npopulation = 10\nby = "source"\nrng = 1\ninterval = "bootstrap(49)"\n'
        plan.write_text(f'table = "{table}"\n{rest}')
        words = [sys.executable, "-m", "evenhand", "run", str(plan), "--format", "csv"]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    assert ran(f"{bucket}/log/*.parquet").stdout == WANTED
    refused = ran(f"s3://me:{SECRET}@bucket/x.parquet")
    assert refused.returncode == 2
    assert "in the environment instead" in refused.stderr
    assert SECRET not in refused.stderr


def test_a_path_for_spark_holds_no_password_either():
    from evenhand.sources.opening import Files

    with pytest.raises(eh.EvenhandError, match="credentials") as caught:
        asked(Files((f"s3a://me:{SECRET}@bucket/x.parquet",), "spark"))
    assert SECRET not in str(caught.value)


KEYED = {
    "user and password": f"s3://me:{SECRET}@bucket/x.parquet",
    "a password with slashes": f"s3://me:{SECRET}/+=@bucket/x.parquet",
    "a password with a quote": f"s3://me:'{SECRET}@bucket/x.parquet",
    "a password in quotes": f"md:host=h password='{SECRET}'",
    "a fragment": f"gs://bucket/x.parquet#{SECRET}",
    "a signature": f"abfss://box@host/x.parquet?sig={SECRET}",
    "a token without a host": f"md:db?motherduck_token={SECRET}",
    "a database": f"postgres://me:{SECRET}@host/db",
    "a web page": f"https://me:{SECRET}@host/x.csv",
    "no scheme": f"me:{SECRET}@host/db",
    "no scheme and an address": f"me:{SECRET}@10.0.0.1:5432/db",
    "a password with spaces": f"postgresql://me:a {SECRET}@host/db",
    "a password with an at": f"me:a@{SECRET}@host/db",
    "a connection string": f"AccountName=a;AccountKey={SECRET}==;EndpointSuffix=b",
    "words": f"host=h user=me password={SECRET} dbname=d",
    "a signature alone": f"sv=1&sig={SECRET}&se=2",
    "auth": f"h.example/db;auth={SECRET}",
    "a token": f"token={SECRET}",
    "JSON": f'{{"api_key": "{SECRET}"}}',
    "a header": f"Authorization: Bearer {SECRET}7",
    "a setting of Spark": f"spark.hadoop.fs.s3a.secret.key={SECRET}",
    "a setting of a store": f"fs.azure.account.key.box.dfs.core.windows.net={SECRET}",
    "the environment": f"AWS_SECRET_ACCESS_KEY={SECRET}",
}


@pytest.mark.parametrize("word", ["awrf(target={'f':0.5})@10", "C:/data/me@home.csv", "tally:a@b.csv", "unit=author by=token", "12:30@5",
                                  "unit='key' is not a column. Columns: key, token, password.", "shop.duckdb::a.b", "spark://host:7077", "abfss://box@host.net/log.parquet"])  # fmt: skip
def test_what_holds_no_key_is_left_as_it_is(word):
    assert without_keys(word) == word


@pytest.mark.parametrize(
    "label", ["pass: yes", "team:ann@home.org", "basic school2020", "turkey: izmir", "compass=north"]
)
def test_a_label_is_no_key(label):
    frame = pl.DataFrame({"group": [label, "b"] * 6, "request": [1] * 12, "rank": range(1, 13)})
    found = eh.prefix(frame, group="group", protected=label, interval=None, chance=None, metrics="ndd")
    assert found.frame["estimate"].is_not_nan().all()


@pytest.mark.parametrize("what", KEYED)
def test_no_word_with_a_key_in_it_is_repeated_wherever_it_is_typed(what, tmp_path, capsys):
    log, word = tmp_path / "log.csv", KEYED[what]
    LOG.write_csv(log)
    asked = ["--unit", "author", "--population", "none"]
    for words in (
        ["inequality", word, *asked],
        ["inequality", str(log), *asked[:3], word],
        ["inequality", "--tally", word, *asked],
        ["plan", "inequality", word, *asked],
        ["inequality", str(log), *asked, "--output", word],
        ["inequality", str(log), *asked, "--plot", f"lorenz={word}.svg"],
        ["inequality", str(log), *asked, "--metric", word],
        ["inequality", str(log), *asked, "--by", word],
        ["inequality", str(log), *asked, "--no-such-option", word],
        ["sql", "inequality", "--table", word, "--dialect", "duckdb", *asked],
        ["inequality", str(log), *asked, "--engine", "spark", "--master", word],
        ["inequality", str(log), *asked, "--check", word],
        ["inequality", str(log), *asked, "--password", word],
        ["history", word],
        ["look", word],
        ["compare", word, str(log)],
        ["run", word],
    ):
        with contextlib.suppress(SystemExit):  # of argparse
            assert main(words) == 2
        said = capsys.readouterr()
        assert said.err
        assert SECRET not in said.out + said.err, words


def test_answers_are_written_on_this_machine_only(tmp_path, capsys):
    LOG.write_csv(tmp_path / "log.csv")
    words = ["inequality", str(tmp_path / "log.csv"), "--unit", "author", "--population", "none"]
    assert main([*words, "--html", "s3://bucket/report.html"]) == 2
    assert "begins with 's3://', and answers are written on this machine." in capsys.readouterr().err


PLACES = {
    "s3://nobody/log.csv": ("AWS", {}),
    "s3://nowhere/folder": ("AWS", {}),
    "gs://bucket/log.parquet": ("GOOGLE", {}),
    "abfss://box@somebody.dfs.core.windows.net/log.parquet": (
        "AZURE",
        {"AZURE_STORAGE_ACCOUNT_KEY": "aHVzaA=="},
    ),
}


@pytest.mark.parametrize("path", PLACES)
def test_a_store_that_does_not_answer_is_told_within_seconds(path, monkeypatch):
    """Its address leads nowhere: nothing leaves this machine."""
    begin, more = PLACES[path]
    _known_to(monkeypatch, "http://127.0.0.1:9")
    monkeypatch.delenv("AWS_REGION")  # Polars would warn that it looks it up
    for name, value in {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", **more}.items():
        monkeypatch.setenv(name, value)
    started = time.monotonic()
    with pytest.raises(eh.EvenhandError) as caught:
        asked(path)
    assert time.monotonic() - started < 20  # a few seconds on a machine that is idle
    assert re.fullmatch(
        rf"'{re.escape(path)}' cannot be read \(\w+\)\. Check the path and the {begin}_\.\.\. variables of the environment\.",
        str(caught.value),
    )
