"""Messages as Dask wrote them: `NAME.frames` beside this file is `pack_frames(distributed.protocol.dumps(message))` of distributed 2026.7.1.

They are read, never written again. `python tests/data/dask/golden.py NAME …` writes those of names that are new, with Dask's own code.
"""

import sys
from pathlib import Path

import numpy as np
from distributed.protocol import to_serialize

HERE = Path(__file__).parent
CONTEXT = {"compression": None, "pickle-protocol": 5}


def control():
    return {"op": "register", "keys": [("x", 0), "y"], "n": 2**63, "x": 1.5, "set": {1}, ("a", 1): None, "raw": b"\0\1", "nested": {"a": {"b": ()}}}


def arrays():
    base = np.arange(24, dtype="<f8").reshape(4, 6)
    return {"op": "put", "one": to_serialize(base), "f": to_serialize(np.asfortranarray(base)), "many": to_serialize({"a": base, "b": [base[0], base[1]]})}


def pickled():
    return {"op": "put", "value": to_serialize({"not": {"an", "array"}}), "none": to_serialize(None)}


MESSAGES = {make.__name__: make for make in (control, arrays, pickled)}

if __name__ == "__main__":
    from distributed.protocol import dumps
    from distributed.protocol.utils import pack_frames

    for name in sys.argv[1:]:
        path = HERE / f"{name}.frames"
        assert not path.exists(), f"{path} is there: golden frames are not written again"
        path.write_bytes(pack_frames(dumps(MESSAGES[name](), context=CONTEXT)))
