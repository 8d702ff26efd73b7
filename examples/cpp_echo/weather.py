"""The class that cpp_echo and Python give each other."""

from dataclasses import dataclass

import numpy as np

import transload


@transload.trust
@dataclass
class Reading:
    station: str
    kelvin: np.ndarray
    flags: dict[str, int]
