"""A Spark cluster on loopback: a standalone master and its workers, each a process of its own, as on real machines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SETTINGS = {
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2",
    "spark.sql.codegen.wholeStage": "false", "spark.sql.adaptive.enabled": "false",
}  # fmt: skip
"""Small tables are quicker without compiled code; without adaptive plans, a plan says what will be run."""

LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For virtual machines that live for a minute."""


class Cluster:
    """A master and its workers, each with room for an executor of the tests and one beside it; `close` ends them all."""

    def __init__(self, workers: int = 2) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="evenhand-cluster-"))
        self.master = self._started(
            "master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
        self.url = told(self.folder / "master.log", r"Starting Spark master at (spark://\S+)", self.master)
        self.workers = [self.worker() for _ in range(workers)]
        for at in range(workers):
            told(self.folder / f"worker-{at}.log", "Successfully registered with master", self.workers[at])

    def worker(self) -> subprocess.Popen[bytes]:
        """One more worker, started but not waited for."""
        at = len(list(self.folder.glob("worker-*.log")))
        place = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "2", "--memory", "1100m")
        return self._started(f"worker-{at}", "worker.Worker", *place, "--work-dir", str(self.folder), self.url)

    def _started(self, name: str, called: str, *words: str) -> subprocess.Popen[bytes]:
        import pyspark

        home = Path(pyspark.__file__).parent
        command = [
            "java",
            "-cp",
            f"{home}/jars/*",
            "-Xmx256m",
            *LIGHT.split(),
            f"org.apache.spark.deploy.{called}",
            *words,
        ]
        place = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"}
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | place, start_new_session=True)

    def close(self) -> None:
        for process in (*self.workers, self.master):
            process.terminate()
        for process in (*self.workers, self.master):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def told(log: Path, words: str, process: subprocess.Popen[bytes], seconds: float = 90) -> str:
    """What a process wrote to its log, once it did."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        if found := re.search(words, log.read_text(errors="replace")):
            return found[found.lastindex or 0]
        time.sleep(0.05)
    raise RuntimeError(f"Spark did not say {words!r}: {log.read_text(errors='replace')[-2000:]}")


def session(url: str, settings: Mapping[str, str] = SETTINGS) -> Any:
    """The one session of this process."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors tally whole groups with evenhand
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(url).appName("evenhand tests")
    light = {"spark.driver.extraJavaOptions": LIGHT, "spark.executor.extraJavaOptions": LIGHT}
    for name, value in {**settings, **light}.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found
