"""The default trust list: exact names and what may be done with each. docs/security.md says how a name gets here."""

from __future__ import annotations

from . import cuml, numpy, pandas, pyarrow, scipy, sklearn, standard

NAMES: dict[str, int] = {**standard.NAMES, **numpy.NAMES, **pandas.NAMES, **pyarrow.NAMES, **scipy.NAMES, **sklearn.NAMES, **cuml.NAMES}
