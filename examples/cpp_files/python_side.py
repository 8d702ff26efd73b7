"""The other side of cpp_files: `write FILE [CODEC]` saves trucks for C++, `read FILE` loads what C++ wrote and checks it."""

import sys

import numpy as np

import transload
from fleet import Engine, Truck


def write(path: str, compression: str | None = None) -> None:
    shared = Engine("diesel", 310.5)
    trucks = [
        Truck("B-TL 1", shared, 4, np.arange(50_000, dtype="f8"), np.ones((3, 2), "f4"), ["Ann", "Bo"], {"long": 7}),
        Truck("B-TL 2", shared, 8, np.full(4, 0.5), np.zeros((2, 2), "f4"), [], {}, retired=True, note="two holes"),
    ]
    transload.save(path, trucks, compression=compression)


def read(path: str) -> None:
    (truck,) = transload.load(path)
    assert type(truck) is Truck and type(truck.engine) is Engine, truck
    assert truck.plate == "C++ 20" and truck.engine == Engine("electric", 400.0) and truck.wheels == 6
    assert np.array_equal(truck.loads_kg, np.arange(100_000, dtype="f8"))
    assert truck.route.dtype == np.float32 and np.array_equal(truck.route, np.arange(6).reshape(3, 2))
    assert truck.drivers == ["Ada", "Grete"] and truck.tags == {"cold": 2, "north": 1}
    assert truck.retired is False and truck.note == "wrote itself"
    print("Python loaded the truck that C++ wrote:", truck.plate, truck.loads_kg.shape)


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](*sys.argv[2:])
