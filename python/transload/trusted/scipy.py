"""SciPy. Sparse containers, splines and frozen distributions are rebuilt by `transload.adapters.scipy`, which looks at them first.

Not here, and why: k-d trees and interpolators other than BSpline, whose compiled code trusts its state; objects that hold
bound methods (`gaussian_kde` and the distributions themselves), for `getattr` with arguments from the bytes reaches everything.
"""

from __future__ import annotations

MAKE, CALL, HAND_ON = 1, 2, 4

_FUNCTIONS: dict[str, str] = {
    # ufuncs say nothing about their home: it is the first loaded module that has them.
    "scipy.special": "erf erfc expit gammaln log_expit logit xlogy",
    "scipy.special._special_ufuncs": "erf erfc expit gammaln log_expit logit xlogy",
    "scipy.special._ufuncs": "erf erfc expit gammaln log_expit logit xlogy",
}

NAMES: dict[str, int] = {f"{module}:{name}": HAND_ON for module, names in _FUNCTIONS.items() for name in names.split()}
