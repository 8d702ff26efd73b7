"""How a process, a worker and the scheduler stand: everything that turning transload on changes there."""

import importlib
import inspect

import dask


def of_this_process():
    """Return everything that transload replaces in a process, by name, as it stands there now."""
    places = {
        "distributed.protocol.core": ["serialize_and_split", "serialize"],
        "distributed.protocol.serialize": ["serialize_and_split", "serialize"],
        "distributed.protocol.pickle": ["dumps"],
        "distributed.client": ["dumps"],
        "distributed.comm.core:Comm": ["handshake_info"],
        "distributed.comm.core:Listener": ["on_connection"],
        "distributed.comm.tcp:TCP": ["write"],
        "distributed.client:Client": ["_scatter", "_publish_dataset", "_gather"],
        "distributed.actor:Actor": ["_worker_rpc"],
    }
    found = {}
    for place, names in places.items():
        module, _, cls = place.partition(":")
        thing = importlib.import_module(module)
        thing = getattr(thing, cls) if cls else thing
        for name in names:
            value = inspect.getattr_static(thing, name, None)
            value = getattr(value, "fget", value)
            found[f"{place}.{name}"] = (getattr(value, "__module__", ""), id(value))
    found["preload"] = tuple(dask.config.get("distributed.client.preload", ()))
    return found


def of_this_worker(dask_worker):
    """Return what `enable` changes on a worker: lists, methods, handlers, and the process's own places."""
    w = dask_worker
    return {
        "lists": [w.rpc.deserializers, w.rpc.serializers, w.scheduler.deserializers],
        "own": sorted(set(w.__dict__) & {"gather_dep", "execute", "batched_send"}),
        "handlers": {op: inspect.unwrap(w.handlers[op]) is w.handlers[op] for op in ("get_data", "gather")},
        "counts": "transload_counts" in w.handlers,
        "plugins": sorted(w.plugins),
    }


def of_the_scheduler(dask_scheduler):
    s = dask_scheduler
    handlers = {op: inspect.unwrap(s.handlers[op]) is s.handlers[op] for op in ("scatter", "proxy", "publish_put")}
    return {
        "handlers": handlers,
        "pages": len(s.http_application.applications),
        "plugins": sorted(s.plugins),
        "worker plugins": sorted(s.worker_plugins),
    }
