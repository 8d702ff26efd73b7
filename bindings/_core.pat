_core.__suffix__:
    __version__: str
