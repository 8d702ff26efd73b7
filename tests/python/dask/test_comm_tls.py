"""`transload://` with certificates, and `transload+tls://`: Dask's rules hold, and nothing goes in clear."""

import asyncio
import contextlib
import logging
import os
import resource
import struct

import dask
import dask.array
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from distributed.comm import CommClosedError, connect, listen
from distributed.comm.core import FatalCommClosedError
from distributed.protocol import to_serialize
from distributed.protocol.serialize import ToPickle
from distributed.security import Security

import transload.dask
from certificates import security
from transload.dask._tls import EncryptedComm

pytestmark = pytest.mark.timeout(60)

SCHEMES = pytest.mark.parametrize("scheme", ["transload", "transload+tls"])


@contextlib.asynccontextmanager
async def listening(scheme, handle, who=None, host="127.0.0.1"):
    listener = await listen(f"{scheme}://{host}:0", handle, **(who or security()).get_listen_args("scheduler"))
    try:
        yield listener
    finally:
        listener.stop()


async def echo(comm):
    with contextlib.suppress(CommClosedError):
        while True:
            await comm.write({"back": to_serialize(await comm.read())})


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 40))


@SCHEMES
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_messages_go_there_and_back(scheme, host):
    async def check():
        async with listening(scheme, echo, host=host) as listener:
            assert listener.contact_address.startswith(f"{scheme}://{host}:")
            comm = await connect(listener.contact_address, **security().get_connection_args("worker"))
            assert comm.peer_address == listener.contact_address
            for value in ([1, (2, [3])], np.zeros(5_000_000), "text"):
                await comm.write(to_serialize(value))
                back = (await comm.read())["back"]
                assert np.array_equal(back, value) if isinstance(value, np.ndarray) else back == value
            info = comm.extra_info
            assert info["path"] == "tls" and info["cipher"] and info["peercert"]["subject"]
            assert info["nbytes_sent"] > 40_000_000 and info["nbytes_received"] > 40_000_000
            await comm.close()
            with pytest.raises(CommClosedError):
                await comm.read()

    run(check())


def test_values_go_in_our_form():
    """Identity is kept, a list stays a list, and frames lie where Dask's tls:// would misalign them."""
    came = []

    async def take(comm):
        came.append((await comm.read())["value"])
        await comm.write("done")
        await comm.close()

    async def check():
        async with listening("transload", take) as listener:
            comm = await connect(listener.contact_address, **security().get_connection_args("worker"))
            shared = np.arange(300_000.0)
            await comm.write({"value": to_serialize([shared, shared, [1, (2,)]])})
            assert await comm.read() == "done"
            await comm.close()
        a, b, rest = came[0]
        assert a is b and np.array_equal(a, shared) and rest == [1, (2,)]
        assert a.ctypes.data % 64 == 0 and a.flags.writeable

    run(check())


def test_large_bytes_land_in_the_object_that_arrives():
    sent = [os.urandom(6 << 20), os.urandom(5000), b"z" * 100_000, np.arange(20_000.0)]

    async def check():
        async with listening("transload", echo) as listener:
            comm = await connect(listener.contact_address, **security().get_connection_args("worker"))
            came = []

            async def frames(stream):
                came[:] = await EncryptedComm._frames(comm, stream)
                return list(came)

            comm._frames = frames
            await comm.write(to_serialize(sent))
            got = (await comm.read())["back"]
            assert got[:3] == sent[:3] and np.array_equal(got[3], sent[3])
            landed = {id(frame) for frame in came}
            assert id(got[0]) in landed and id(got[2]) in landed
            await comm.close()

    run(check())


def test_a_frame_of_a_kind_that_is_not_known_ends_the_connection():
    async def lie(comm):
        comm.stream.write(struct.pack("<QQQ", 1, 0, (7 << 56) + 5000) + bytes(5000))

    async def check():
        async with listening("transload", lie) as listener:
            comm = await connect(listener.contact_address, **security().get_connection_args("worker"))
            with pytest.raises(CommClosedError, match="of a kind"):
                await comm.read()

    run(check())


def test_empty_arrays_of_several_dimensions_and_other_orders_travel():
    """Pickle hands their buffers over as they are: every Dask DataFrame has an empty one, its meta."""
    came = []

    async def take(comm):
        came.append(await comm.read())
        await comm.close()

    values = [np.empty((0, 3)), pd.DataFrame({"a": []}), np.arange(12_000.0).reshape(3, -1, order="F")]

    async def check():
        async with listening("transload", take) as listener:
            comm = await connect(listener.contact_address, **security().get_connection_args("worker"))
            collection = dask.array.from_array(values[0])
            await comm.write({"pickled": ToPickle((values, lambda: 1)), "ours": ToPickle(values), "dask": to_serialize(collection)})
            with pytest.raises(CommClosedError):
                await comm.read()

    run(check())
    (message,) = came
    for array, frame, ordered in (message["pickled"][0], message["ours"]):
        assert array.shape == (0, 3) and frame.equals(values[1])
        assert np.array_equal(ordered, values[2]) and ordered.flags.f_contiguous
    assert message["dask"].shape == (0, 3)


def test_nothing_goes_in_clear():
    """What passes between the two ends is looked at on its way."""
    seen = bytearray()
    secret = b"what nobody else may read " * 1000

    async def relay(port):
        async def pump(reader, writer):
            while data := await reader.read(65536):
                seen.extend(data)
                writer.write(data)
            writer.close()

        async def both(reader, writer):
            there = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

        return await asyncio.start_server(both, "127.0.0.1", 0)

    async def check():
        async with listening("transload", echo) as listener:
            server = await relay(int(listener.contact_address.rpartition(":")[2]))
            address = f"transload://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            comm = await connect(address, **security().get_connection_args("worker"))
            for value in (secret, np.frombuffer(secret, "u1")):
                await comm.write(to_serialize(value))
                assert bytes((await comm.read())["back"]) == secret
            await comm.close()
            server.close()
        assert len(seen) > 4 * len(secret)
        assert b"what nobody" not in seen and b"pickle-protocol" not in seen and b"transload" not in seen

    run(check())


@SCHEMES
def test_a_stranger_is_refused_by_either_end(scheme, caplog):
    async def check():
        # Signed by an authority that the other end does not know.
        async with listening(scheme, echo) as listener:
            with pytest.raises((OSError, FatalCommClosedError)):
                stranger = security("stranger", "peer").get_connection_args("worker")
                comm = await connect(listener.contact_address, timeout=2, **stranger)
                await comm.read()
        async with listening(scheme, echo, security("stranger", "peer")) as listener:
            with pytest.raises(FatalCommClosedError, match="TLS certificate does not match"):
                await connect(listener.contact_address, timeout=5, **security().get_connection_args("worker"))

    with caplog.at_level(logging.WARNING, "distributed.comm.tcp"):
        run(check())
    assert "TLS handshake failed" in caplog.text


def test_an_expired_certificate_is_refused_by_either_end():
    expired = security("expired", "expired")
    trusting = security("peer", "expired")  # of the right authority, at the wrong time

    async def check():
        async with listening("transload", echo, trusting) as listener:
            with pytest.raises((OSError, FatalCommClosedError)):
                # Only the listener looks at it: TLS 1.3 lets the other end go on until the refusal comes.
                unchecked = security("expired", "peer").get_connection_args("worker")
                comm = await connect(listener.contact_address, timeout=2, **unchecked)
                await comm.read()
        async with listening("transload", echo, expired) as listener:
            with pytest.raises(FatalCommClosedError, match="TLS certificate does not match") as raised:
                await connect(listener.contact_address, timeout=5, **trusting.get_connection_args("worker"))
            assert "expired" in str(raised.value.__cause__)
            await asyncio.sleep(0.05)  # the listener hears of it, too

    run(check())


def test_host_names_are_checked_where_the_context_says_so():
    """Dask's `Security` does not: any certificate of the authority will do for any host. A context of one's own may."""

    async def check():
        strict = security().get_connection_args("worker")["ssl_context"]
        strict.check_hostname = True
        async with listening("transload", echo) as listener:
            comm = await connect(listener.contact_address, ssl_context=strict)
            await comm.close()
        async with listening("transload", echo, host="127.0.0.2") as listener:  # which the certificate does not name
            comm = await connect(listener.contact_address, **security().get_connection_args("worker"))
            await comm.close()
            with pytest.raises(FatalCommClosedError, match="TLS certificate does not match"):
                await connect(listener.contact_address, timeout=5, ssl_context=strict)

    run(check())


@contextlib.asynccontextmanager
async def pair():
    """The two ends of a connection: (connecting, listening)."""
    come = asyncio.get_running_loop().create_future()
    held = asyncio.Event()

    async def handle(comm):
        come.set_result(comm)
        await held.wait()

    async with listening("transload", handle) as listener:
        connecting = await connect(listener.contact_address, **security().get_connection_args("worker"))
        listening_end = await come
        try:
            yield connecting, listening_end
        finally:
            held.set()
            connecting.abort()
            listening_end.abort()


@pytest.mark.parametrize("end", ["abort", "close", "socket"])
def test_an_end_in_the_midst_of_large_writes_both_ways_wakes_everybody(end):
    """What came before is whole and in order."""

    async def talk(comm):
        with contextlib.suppress(CommClosedError):
            for i in range(40):
                await comm.write({"i": i, "x": to_serialize(np.full(3_000_000, i, np.uint8))})

    async def hear(comm):
        for i in range(40):
            message = await comm.read()
            assert message["i"] == i and (message["x"] == i).all()

    async def check(pause):
        async with pair() as (a, b):
            writing = [asyncio.ensure_future(talk(comm)) for comm in (a, b)]
            reading = [asyncio.ensure_future(hear(comm)) for comm in (a, b)]
            await asyncio.sleep(pause)
            if end == "abort":
                a.abort()
            elif end == "close":
                await a.close()
            else:
                a.stream.socket.shutdown(2)
            for task in reading:
                with pytest.raises(CommClosedError):
                    await task
            await asyncio.gather(*writing)
            assert a.closed() and b.closed()

    for pause in (0, 0.01, 0.05):
        run(check(pause))


def test_garbage_between_the_records_ends_the_connection():
    async def check():
        for garbage in (bytes(64), b"\x17\x03\x03\xff\xff" + bytes(70_000), b"\x17\x03\x03\x00\x20" + bytes(32)):
            async with pair() as (a, b):
                await a.write({"x": to_serialize(np.zeros(1000))})
                assert len((await b.read())["x"]) == 1000
                os.write(a.stream.socket.fileno(), garbage)
                with pytest.raises(CommClosedError):
                    await b.read()
                assert b.closed()
                with pytest.raises(CommClosedError):
                    await b.write("x")

    run(check())


HEAD = struct.Struct("<QQ")


@pytest.mark.parametrize(
    "says, text",
    [
        (HEAD.pack(2**64 - 1, 0), "18446744073709551615 frames"),
        (HEAD.pack(1 << 24, (1 << 24) * 4095), "no room"),
        (HEAD.pack(1, 0) + struct.pack("<Q", 1 << 47), "no room"),
        (HEAD.pack(1, 0) + struct.pack("<Q", 1 << 49), "at most"),
        (HEAD.pack(2, 0) + struct.pack("<QQ", 2**64 - 1, 2**64 - 1), "not known"),
        (HEAD.pack(1, 5) + struct.pack("<Q", 4) + b"abcde", "5 in small ones"),
    ],
)
def test_a_peer_that_lies_of_counts_and_sizes_is_ended_before_memory_is_taken(says, text):
    async def check():
        async with pair() as (a, b):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            a.stream.write(says)
            with pytest.raises(CommClosedError, match=text):
                await b.read()
            assert b.closed()
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000

    run(check())


def test_without_certificates_there_is_no_transload_tls():
    async def check():
        with pytest.raises(TypeError, match="ssl_context"):
            await listen("transload+tls://127.0.0.1:0", echo)
        with pytest.raises(TypeError, match="ssl_context"):
            await connect("transload+tls://127.0.0.1:1", timeout=2)

    run(check())


@SCHEMES
def test_encryption_that_is_required_is_not_left_out(scheme):
    """Dask checks this for its own schemes only, and would run in clear."""

    async def check():
        required = Security(require_encryption=True)
        with pytest.raises((RuntimeError, TypeError), match="encryption required|ssl_context"):
            await listen(f"{scheme}://127.0.0.1:0", echo, **required.get_listen_args("scheduler"))
        async with listening(scheme, echo) as listener:
            with pytest.raises((RuntimeError, TypeError), match="encryption required|ssl_context"):
                await connect(listener.contact_address, timeout=2, **required.get_connection_args("worker"))
        async with listening(scheme, echo, security(require_encryption=True)) as listener:
            both = security(require_encryption=True).get_connection_args("worker")
            comm = await connect(listener.contact_address, **both)
            await comm.write("hello")
            assert await comm.read() == {"back": "hello"}
            comm.abort()

    run(check())


def test_one_end_in_clear_hears_so_at_once(caplog):
    async def check():
        async with listening("transload", echo) as listener:
            with pytest.raises(OSError):
                await connect(listener.contact_address, timeout=2)
        plain = await listen("transload://127.0.0.1:0", echo)
        with pytest.raises(OSError):
            await connect(plain.contact_address, timeout=2, **security().get_connection_args("worker"))
        plain.stop()

    with caplog.at_level(logging.WARNING):
        run(check())
    refused = [r.getMessage() for r in caplog.records if r.getMessage().startswith("refused ")]
    assert refused and all("TLS" in line for line in refused)


@pytest.mark.parametrize("processes", [False, True])
@SCHEMES
def test_cluster(scheme, processes):
    given = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "processes": processes}
    safe = security(require_encryption=True)
    with LocalCluster(protocol=scheme, security=safe, **given) as cluster, Client(cluster, security=safe) as client:
        assert cluster.scheduler_address.startswith(f"{scheme}://")
        one, two = client.sync(client.scheduler.identity)["workers"]
        assert one.startswith(f"{scheme}://")
        before = transload.dask.report(client)
        data = client.submit(np.arange, 2_000_000, workers=[one])
        assert client.submit(np.sum, data, workers=[two]).result() == 1999999000000
        assert client.gather(client.scatter([1, [2]])) == [1, [2]]
        links = (transload.dask.report(client) - before).links
        assert {link["path"] for link in links} == {"tls"}
        timeouts = {"distributed.comm.timeouts.connect": "1s"}
        with pytest.raises((OSError, TypeError)), dask.config.set(timeouts):  # without certificates
            Client(cluster.scheduler_address, timeout="1s")
