"""Live objects between processes, hosts and GPUs: exactly, safely, without pickle."""

from ._core import __version__, built_with_cuda, device_count

__all__ = ["__version__", "built_with_cuda", "device_count"]
