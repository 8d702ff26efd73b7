"""Certificates of the tests as Dask's `Security`."""

from pathlib import Path

from distributed.security import Security

CERTIFICATES = Path(__file__).parents[3] / "data" / "tls"


def security(name="peer", authority="peer", **kwargs):
    files = {
        f"tls_{role}_{kind}": str(CERTIFICATES / f"{name}{'-key' if kind == 'key' else ''}.pem")
        for role in ("scheduler", "worker", "client")
        for kind in ("cert", "key")
    }
    return Security(tls_ca_file=str(CERTIFICATES / f"{authority}-authority.pem"), **files, **kwargs)
