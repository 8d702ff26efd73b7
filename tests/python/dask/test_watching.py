"""What can be watched from outside: counters at /metrics of every process, and a page of the whole cluster."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import standing
from distributed import Client, LocalCluster, Scheduler, Worker, wait
from distributed.security import Security
from prometheus_client.parser import text_string_to_metric_families

import transload.dask
from transload.dask import _counters, _metrics, _page

pytestmark = pytest.mark.timeout(120)

NBYTES = 16_000_000
CERTIFICATES = Path(__file__).parents[2] / "data" / "tls"


def fetch(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        return answer.read().decode()


def ports(client):
    """Return `{"scheduler" or address: port}`."""
    scheduler = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.http_server.port)
    return {"scheduler": scheduler, **client.run(lambda dask_worker: dask_worker.http_server.port)}


def is_there(port, path):
    try:
        fetch(port, path)
    except urllib.error.HTTPError as error:
        assert error.code == 404
        return False
    return True


def metrics(port):
    """Return our samples at /metrics, `{(name, *values of labels in the order of their names): value}`."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(fetch(port, "/metrics"))
        for sample in family.samples
        if sample.name.startswith("dask_transload_") and not sample.name.endswith("_created")
    }


def rise(after, before, *key):
    return after.get(key, 0) - before.get(key, 0)


def links(port):
    time.sleep(_page.FRESH)
    return json.loads(fetch(port, "/transload.json"))["links"]


def local_cluster(**kwargs):
    given = {"protocol": "transload", "n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", **kwargs}
    return LocalCluster(**given, worker_dashboard_address=":0")


@pytest.mark.parametrize("processes, path", [(True, "shared memory"), (False, "process")])
def test_a_transfer_is_seen_at_both_workers_and_on_the_schedulers_page(processes, path):
    with local_cluster(processes=processes) as cluster, Client(cluster) as client:
        one, two = client.run(os.getpid)
        port = ports(client)
        data = client.submit(np.zeros, NBYTES // 8, workers=[one])
        wait(data)
        before = {name: metrics(n) for name, n in port.items()}
        client.submit(np.sum, data, workers=[two]).result()
        after = {name: metrics(n) for name, n in port.items()}

        received = ("dask_transload_bytes_total", "received", path, "127.0.0.1")
        sent = ("dask_transload_bytes_total", "sent", path, "127.0.0.1")
        assert NBYTES <= rise(after[two], before[two], *received) < NBYTES + 1_000_000
        assert NBYTES <= rise(after[one], before[one], *sent) < NBYTES + 1_000_000
        value = ("dask_transload_value_bytes_total", "transload:host", "worker to worker", "encode")
        assert NBYTES <= rise(after[one], before[one], *value) < NBYTES + 1_000_000
        if processes:
            assert rise(after["scheduler"], before["scheduler"], *received) < 1_000_000
            assert rise(after[one], before[one], *received) < 1_000_000
            assert value not in after[two]

        # This process is the scheduler's; its table also has what other tests did.
        found = [row for row in links(port["scheduler"]) if row["peer"] == one]
        (row,) = [row for row in found if row["nbytes_received"] >= NBYTES]
        assert row["process"] == (two if processes else "scheduler")  # in one process there is one table
        assert row["path"] == path and row["nbytes_received"] < NBYTES + 1_000_000
        page = fetch(port["scheduler"], "/transload")
        assert f"<td>{one}</td><td>{path}</td>" in page and f"{row['nbytes_received']:,}" in page


def test_what_dask_shows_is_still_there():
    with local_cluster(processes=True, n_workers=1) as cluster, Client(cluster) as client:
        for name, port in ports(client).items():
            kind = "scheduler" if name == "scheduler" else "worker"
            assert f"\ndask_{kind}_" in fetch(port, "/metrics")
            assert fetch(port, "/health") == "ok"


def test_what_a_client_has_is_seen_where_it_connects(make_cluster):
    """It has no page of its own."""
    with make_cluster("with", {"a": "with"}, protocol="transload") as cluster, cluster.client() as client:
        assert not _counters.members  # else this process would be one that is asked
        port = ports(client)["scheduler"]
        before = metrics(port)
        client.scatter(np.zeros(NBYTES // 8), direct=False)
        received = ("dask_transload_bytes_total", "received", "shared memory", "127.0.0.1")
        assert NBYTES <= rise(metrics(port), before, *received)
        rows = [row for row in links(port) if row["process"] == "a client on 127.0.0.1" and row["peer"] == "scheduler"]
        assert sum(row["nbytes_sent"] for row in rows) >= NBYTES
        assert sum(row["nbytes_received"] for row in rows) < 1_000_000
        # The scheduler passed it on to its worker, by a connection that it opened itself.
        passed_on = [row for row in links(port) if row["process"] == "scheduler" and row["nbytes_sent"] >= NBYTES]
        assert [row["peer"] for row in passed_on] == list(cluster.addresses(client).values())


def test_a_better_path_that_was_refused_is_counted_with_its_reason(make_cluster):
    with make_cluster("with", {"a": "with"}, protocol="transload", DASK_TRANSLOAD__LOCAL_STREAMS="0") as cluster:
        with cluster.client() as client:
            client.scatter(np.zeros(NBYTES // 8), direct=False)
            port = ports(client)["scheduler"]
            assert metrics(port)["dask_transload_fallbacks_total", "127.0.0.1", "turned off", "shared memory"] >= 1
            (row,) = [row for row in links(port) if row["process"] == "scheduler" and row["nbytes_sent"] >= NBYTES]
            assert row["path"] == "tcp" and row["reasons"] == {"shared memory: turned off": 1}
            assert "shared memory: turned off (1)" in fetch(port, "/transload")


def test_over_tls_too():
    files = {
        f"tls_{role}_{kind}": str(CERTIFICATES / f"peer{'-key' if kind == 'key' else ''}.pem")
        for role in ("scheduler", "worker", "client")
        for kind in ("cert", "key")
    }
    security = Security(tls_ca_file=str(CERTIFICATES / "peer-authority.pem"), **files)
    with local_cluster(processes=True, n_workers=1, security=security) as cluster:
        with Client(cluster, security=security) as client:
            (worker,) = client.run(os.getpid)
            port = ports(client)
            before = {name: metrics(n) for name, n in port.items()}
            client.scatter(np.zeros(NBYTES // 8), direct=False)
            key = "dask_transload_bytes_total", "sent", "tls", "127.0.0.1"
            assert rise(metrics(port["scheduler"]), before["scheduler"], *key) >= NBYTES
            key = "dask_transload_bytes_total", "received", "tls", "127.0.0.1"
            assert rise(metrics(port[worker]), before[worker], *key) >= NBYTES
            rows = [row for row in links(port["scheduler"]) if row["path"] == "tls" and row["nbytes_sent"] >= NBYTES]
            assert worker in [row["peer"] for row in rows]


def test_enabled_and_disabled(cluster):
    """On a cluster of Dask's own tcp:// there are no connections of ours to show, but values."""
    with cluster.client() as client:
        port = ports(client)
        assert not any(metrics(n) for n in port.values()) and not is_there(port["scheduler"], "/transload")
        before = client.run_on_scheduler(standing.of_the_scheduler), client.run(standing.of_this_worker)
        transload.dask.enable(client)
        client.submit(np.zeros, NBYTES // 8).result()
        encoded = ("dask_transload_value_bytes_total", "transload:host", "gather", "encode")
        assert sum(metrics(port[a]).get(encoded, 0) for a in cluster.addresses(client).values()) >= NBYTES
        assert is_there(port["scheduler"], "/transload") and "<td>gather</td>" in fetch(port["scheduler"], "/transload")
        document = json.loads(fetch(port["scheduler"], "/transload.json"))
        assert set(document["processes"]) == {"scheduler", *cluster.addresses(client).values()}
        assert "/transload" in json.loads(fetch(port["scheduler"], "/sitemap.json"))["paths"]
        transload.dask.disable(client)
        assert not any(metrics(n) for n in port.values())
        assert not is_there(port["scheduler"], "/transload") and not is_there(port["scheduler"], "/transload.json")
        assert (client.run_on_scheduler(standing.of_the_scheduler), client.run(standing.of_this_worker)) == before


def test_workers_without_transload_and_silent_ones_are_named(make_cluster, monkeypatch):
    with make_cluster("with", {"a": "with", "b": "with", "stock": "without"}) as cluster, cluster.client() as client:
        transload.dask.enable(client, mixed=True)
        names, port = cluster.addresses(client), ports(client)["scheduler"]
        stopped = cluster.processes["b"]
        stopped.send_signal(signal.SIGSTOP)
        try:
            document = json.loads(fetch(port, "/transload.json"))
            assert document["no answer"] == [names["b"]] and document["without transload"] == [names["stock"]]
            assert set(document["processes"]) == {"scheduler", names["a"]}
            page = fetch(port, "/transload")
            assert f"No answer from {names['b']}." in page and f"No transload on {names['stock']}." in page
        finally:
            stopped.send_signal(signal.SIGCONT)
        time.sleep(_page.FRESH)
        assert json.loads(fetch(port, "/transload.json"))["no answer"] == []
        transload.dask.disable(client)


def test_many_who_look_ask_once():
    async def check():
        given = {"protocol": "transload", "host": "127.0.0.1", "port": 0, "dashboard_address": ":0"}
        async with Scheduler(**given) as scheduler, Worker(scheduler.address, nthreads=1) as worker:
            asked = 0
            answer = worker.handlers["transload_counts"]

            def counting():
                nonlocal asked
                asked += 1
                return answer()

            worker.handlers["transload_counts"] = counting
            for _ in range(2):
                looks = (asyncio.to_thread(fetch, scheduler.http_server.port, "/transload") for _ in range(20))
                assert len(set(await asyncio.gather(*looks))) == 1
            assert asked == 1

    asyncio.run(asyncio.wait_for(check(), 60))


def test_below_a_prefix():
    async def check():
        given = {"protocol": "transload", "host": "127.0.0.1", "port": 0, "dashboard_address": ":0"}
        async with Scheduler(**given, http_prefix="/some/where") as scheduler:
            page = await asyncio.to_thread(fetch, scheduler.http_server.port, "/some/where/transload")
            assert "<title>transload</title>" in page

    asyncio.run(asyncio.wait_for(check(), 60))


def test_a_closed_cluster_leaves_no_collector():
    with local_cluster(processes=False, n_workers=1) as cluster, Client(cluster):
        assert _counters.members and _metrics._collector is not None
    assert not _counters.members and _metrics._collector is None


def test_without_prometheus_client(tmp_path):
    """Dask says so on its page, and everything else goes on."""
    (tmp_path / "prometheus_client.py").write_text("raise ModuleNotFoundError('not here', name='prometheus_client')")
    text = """
        import asyncio, urllib.request
        from distributed import Scheduler, Worker
        def fetch(port, path):
            return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}").read().decode()
        async def main():
            async with Scheduler(protocol="transload", host="127.0.0.1", port=0, dashboard_address=":0") as scheduler:
                async with Worker(scheduler.address, nthreads=1) as worker:
                    assert "transload" in await asyncio.to_thread(fetch, scheduler.http_server.port, "/transload")
                    for server in (scheduler, worker):
                        metrics = await asyncio.to_thread(fetch, server.http_server.port, "/metrics")
                        assert "not available" in metrics
        asyncio.run(main())
    """
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", textwrap.dedent(text)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stderr


def test_in_the_menu_of_the_dashboard():
    pytest.importorskip("bokeh", reason="Dask's dashboard needs it")

    async def check():
        given = {"protocol": "transload", "host": "127.0.0.1", "port": 0, "dashboard_address": ":0"}
        async with Scheduler(**given, dashboard=True) as scheduler:
            status = await asyncio.to_thread(fetch, scheduler.http_server.port, "/status")
            assert '<a href="transload">Transload</a>' in status
            page = await asyncio.to_thread(fetch, scheduler.http_server.port, "/transload")
            assert "<title>transload</title>" in page
            transload.dask._scheduler.turn_off(scheduler)
            assert "transload" not in await asyncio.to_thread(fetch, scheduler.http_server.port, "/status")

    asyncio.run(asyncio.wait_for(check(), 60))


# ── the counters ──────────────────────────────────────────────────────────────────────────────────────────────


def stats(reason="", **counts):
    decisions = [("path", "shared memory", reason, False)] if reason else []
    nothing = dict.fromkeys(_counters.LINK_FIELDS, 0)
    return lambda: {"path": "tcp", "streams": 2, "decisions": decisions, **nothing, **counts}


def test_labels_are_few(monkeypatch):
    """Neither the ports of peers that come and go nor what an error says of this one time."""
    table = _counters.Links()
    for port in range(50):
        why = f"cannot connect to 10.0.0.1:{port}: refused"
        table.ended(table.opened(f"transload://10.0.0.1:{port}", stats(why, nbytes_sent=2)))
        table.accepted("10.0.0.1", False, stats("another user: uid 1, here 2", nbytes_sent=3))
    monkeypatch.setattr(_metrics, "links", table)
    monkeypatch.setattr(_metrics, "members", {"one"})
    samples = [
        (sample.name, sample.labels, sample.value)
        for family in _metrics.Collector().collect()
        for sample in family.samples
        if "peer" in sample.labels
    ]
    sent = {"peer": "10.0.0.1", "path": "tcp", "direction": "sent"}
    assert ("dask_transload_bytes_total", sent, 250) in samples
    refused = {"peer": "10.0.0.1", "refused": "shared memory"}
    assert ("dask_transload_fallbacks_total", {**refused, "reason": "failed"}, 50) in samples
    assert ("dask_transload_fallbacks_total", {**refused, "reason": "another user"}, 50) in samples
    assert len(samples) == len({(name, *sorted(labels.items())) for name, labels, _ in samples}) < 12


def totals(rows):
    return {name: sum(row[name] for row in rows) for name in ("connections", *_counters.LINK_FIELDS)}


def test_peers_that_were_once_met_take_no_more_and_more_memory():
    """There was a row for each of them for ever."""
    table, n = _counters.Links(), 5 * _counters.MOST_ENDED
    stays = table.opened("transload://10.0.0.9:1", stats(nbytes_sent=1))
    for port in range(n):
        why = f"10.0.0.{port % 2}:{port}: Connection refused" if port % 10 == 0 else "turned off"
        table.ended(table.opened(f"transload://10.0.0.{port % 2}:{port}", stats(why, nbytes_sent=port)))
    table.ended(stays)
    rows = table.rows()
    assert len(rows) <= _counters.MOST_ENDED + 2
    assert totals(rows) == {**dict.fromkeys(_counters.LINK_FIELDS, 0), "connections": n + 1, "nbytes_sent": n * (n - 1) // 2 + 1}
    assert {f"transload://10.0.0.{port % 2}:{port}" for port in range(n - 500, n)} < {row["peer"] for row in rows}
    hosts = {row["peer"]: row for row in rows if "://" not in row["peer"]}
    assert set(hosts) == {"10.0.0.0", "10.0.0.1"}
    assert set(hosts["10.0.0.0"]["reasons"]) == {"shared memory: failed", "shared memory: turned off"}


def test_a_difference_of_reports_holds_though_old_peers_were_added_to_their_host():
    table, counts = _counters.Links(), dict.fromkeys(_counters.LINK_FIELDS, 0)
    for port in range(100):
        table.ended(table.opened(f"transload://10.0.0.1:{port}", stats(nbytes_sent=7, messages_sent=1)))
    before = table.rows()
    for port in range(90, 90 + 3 * _counters.MOST_ENDED):
        table.ended(table.opened(f"transload://10.0.0.1:{port}", stats(nbytes_sent=2, messages_sent=1)))
    table.ended(table.opened("transload://10.0.0.1:5", stats(nbytes_sent=3, messages_sent=1)))  # again
    nothing = {"data": [], "own": {}, "wire": [0, 0], "accepted": []}
    then, now = ({**nothing, "process": "1", "links": rows} for rows in (before, table.rows()))
    (found,) = (_page.of_processes({"a": now}) - _page.of_processes({"a": then})).processes.values()
    n = 3 * _counters.MOST_ENDED
    wanted = {**counts, "nbytes_sent": 2 * n + 3, "messages_sent": n + 1}
    assert {name: sum(row[name] for row in found["links"]) for name in counts} == wanted
    assert all(row[name] >= 0 for row in found["links"] for name in counts)


def test_a_connection_that_is_collected_while_the_table_is_read_disturbs_nobody():
    """The collector may end one at any place of this very thread."""
    table = _counters.Links()
    late = table.opened("transload://10.0.0.1:2", stats(nbytes_sent=1))
    table.ended(table.opened("transload://10.0.0.1:1", stats("turned off", nbytes_sent=1)))

    class Reasons(dict):
        def items(self):
            table.ended(late)
            return super().items()

        keys = __iter__ = items

    (row,) = table._ended.values()
    row["reasons"] = Reasons()
    assert 1 <= len(table.rows()) <= 2
    row["reasons"] = {}
    assert len(table.rows()) == 2


def test_compression_that_is_told_later_lets_no_counter_fall():
    table = _counters.Counters()
    table.data("encode", "gather", "transload:host", nbytes=1000)

    def samples():
        found = {}
        for family in _metrics.Collector()._of_values(table.snapshot()):
            found |= {(s.name, *s.labels.values()): s.value for s in family.samples}
        return found

    before = samples()
    table.saved(("encode", "gather", "transload:host"), 400)
    after = samples()
    assert all(after[key] >= value for key, value in before.items())
    assert after["dask_transload_value_saved_bytes_total", "encode", "gather", "transload:host"] == 400


def test_what_others_say_is_shown_as_text():
    row = {"peer": "<b>", "path": "tcp", "connections": 1, "streams": 1, "reasons": {"<script>": 1}}
    row |= dict.fromkeys(_counters.LINK_FIELDS, 0)
    counts = {"process": "1", "data": [], "own": {"<i>": [1, 2]}, "wire": [0, 0], "links": [row], "accepted": []}
    page = _page._page_of(_page.Found(_page.of_processes({"<p1>": counts}), ["<silent>"], ["<stock>"]))
    for text in ("<b>", "<script>", "<i>", "<p1>", "<silent>", "<stock>"):
        assert text not in page and text.replace("<", "&lt;").replace(">", "&gt;") in page
