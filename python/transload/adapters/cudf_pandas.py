"""cudf.pandas: a proxy travels as what it stands for, the frame on the device or the one in host memory, and is a proxy again where cudf.pandas is on."""

from __future__ import annotations

import sys
from typing import Any

from .._registry import register_named
from ._checks import need


def _encode_proxy(proxy: Any) -> tuple[Any]:
    wrapped = object.__getattribute__(proxy, "_fsproxy_wrapped")
    if sys.modules["cudf.pandas.fast_slow_proxy"].get_final_type_map().get(type(wrapped)) is not type(proxy):
        raise NotImplementedError(f"a subclass of a proxy, {type(proxy).__qualname__}")
    return (wrapped,)


def _decode_proxy(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 1, "a proxy is what it stands for")
    accelerated = sys.modules.get("cudf.pandas")
    if accelerated is None or not accelerated.LOADED:
        return value[0]
    return accelerated.as_proxy_object(value[0])


register_named(["cudf.pandas.fast_slow_proxy:_FinalProxy"], "cudf.proxy", _encode_proxy, _decode_proxy, ())
