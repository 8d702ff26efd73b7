"""The classes that both sides know; C++ has them as structs in cpp_files.cpp."""

import dataclasses

import numpy as np

import transload


@transload.trust
@dataclasses.dataclass
class Engine:
    kind: str
    power_kw: float


@transload.trust
@dataclasses.dataclass
class Truck:
    plate: str
    engine: Engine
    wheels: int
    loads_kg: np.ndarray  # float64, one a trip
    route: np.ndarray  # float32, (stops, 2)
    drivers: list[str]
    tags: dict[str, int]
    retired: bool = False
    note: str | None = None
