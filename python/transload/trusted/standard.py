"""Python's own: builtins and the standard library.

What runs something when it is asked (`attrgetter`, `methodcaller`, iterators that call), what belongs to this process (locks, files,
sockets, threads), programs as data (`ast`), and what opens files by the names it holds (`FrameSummary`) are not here: docs/objects.md.
"""

from __future__ import annotations

MAKE, CALL, HAND_ON, KEEP = 1, 2, 4, 16


def _names(homes: dict[str, str]) -> list[str]:
    """`module:name` of each word; of a class's methods where the home is a class."""
    return [f"{home}{'.' if ':' in home else ':'}{name}" for home, names in homes.items() for name in names.split()]


# Called with whatever, they look at it and return something; they may take as long as they are asked to.
_FUNCTIONS = {
    "builtins": "abs all any ascii bin callable chr divmod format hash hex id isinstance issubclass len max min oct ord pow repr round sorted sum",
    "_operator": "abs add and_ concat contains countOf eq floordiv ge gt index indexOf inv invert is_ is_none is_not is_not_none le length_hint lshift lt "
                 "matmul mod mul ne neg not_ or_ pos pow rshift sub truediv truth xor",
    "math": "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist erf erfc exp exp2 expm1 fabs factorial floor fma fmod frexp fsum gamma gcd "
            "hypot isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10 log1p log2 modf nextafter perm pow prod radians remainder sin sinh sqrt sumprod tan tanh trunc ulp",
    "cmath": "acos acosh asin asinh atan atanh cos cosh exp isclose isfinite isinf isnan log log10 phase polar rect sin sinh sqrt tan tanh",
    "statistics": "correlation covariance fmean geometric_mean harmonic_mean linear_regression mean median median_grouped median_high median_low mode multimode pstdev pvariance quantiles stdev variance",
    "_bisect": "bisect_left bisect_right",
    "time": "monotonic monotonic_ns perf_counter perf_counter_ns process_time process_time_ns time time_ns",
    "uuid": "uuid4",
    # Methods of values; those that read a language of their own (format), look for codecs (encode, decode) or change the value are not among them.
    "builtins:str": "__contains__ __len__ capitalize casefold center count endswith expandtabs find index isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable "
                    "isspace istitle isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip "
                    "swapcase title upper zfill",
    "builtins:bytes": "__len__ count endswith find fromhex hex join lower lstrip partition removeprefix removesuffix replace rfind rsplit rstrip split splitlines startswith strip upper",
    "builtins:list": "__contains__ __getitem__ __len__ copy count index",
    "builtins:tuple": "__contains__ __getitem__ __len__ count index",
    "builtins:dict": "__contains__ __getitem__ __len__ copy fromkeys get items keys values",
    "builtins:set": "__contains__ __len__ copy difference intersection isdisjoint issubset issuperset symmetric_difference union",
    "builtins:frozenset": "__contains__ __len__ copy difference intersection isdisjoint issubset issuperset symmetric_difference union",
    "builtins:int": "__add__ __mul__ __sub__ bit_length conjugate from_bytes to_bytes",
    "builtins:float": "__add__ __mul__ __sub__ as_integer_ratio conjugate fromhex hex is_integer",
    "builtins:complex": "conjugate",
    "datetime:date": "ctime fromisocalendar fromisoformat fromordinal fromtimestamp isocalendar isoformat isoweekday timetuple today toordinal weekday",
    "datetime:datetime": "combine ctime date fromisocalendar fromisoformat fromordinal fromtimestamp isocalendar isoformat isoweekday now time timestamp timetuple today toordinal weekday",
    "datetime:timedelta": "total_seconds",
    "itertools:count": "__next__",
}

# Classes as values: to be asked what they are, or called by their user. Not type, ABCMeta and their kind, which make classes.
_CLASSES = {
    "builtins": "bool bytearray bytes complex dict enumerate float frozenset int list object range reversed set slice str tuple zip Ellipsis NotImplemented",
    "types": "NoneType EllipsisType NotImplementedType SimpleNamespace",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "uuid": "UUID SafeUUID",
    "pathlib": "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath",
    "pathlib._local": "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath",
    "collections": "ChainMap Counter OrderedDict UserDict UserList UserString defaultdict deque",
    "functools": "partial",
    "array": "array",
    "re": "Match Pattern",
    "abc": "ABC",
    "ipaddress": "IPv4Address IPv4Interface IPv4Network IPv6Address IPv6Interface IPv6Network",
    "inspect": "_empty",
    "numbers": "Complex Integral Number Rational Real",
    "collections.abc": "AsyncGenerator AsyncIterable AsyncIterator Awaitable Buffer ByteString Callable Collection Container Coroutine Generator Hashable ItemsView Iterable Iterator KeysView "
                       "Mapping MappingView MutableMapping MutableSequence MutableSet Reversible Sequence Set Sized ValuesView",
    # Forms and aliases; what makes classes or evaluates text (NamedTuple, TypedDict, NewType, ForwardRef, get_type_hints) is not here.
    "typing": "AbstractSet Annotated Any AnyStr AsyncContextManager AsyncGenerator AsyncIterable AsyncIterator Awaitable ByteString Callable ChainMap ClassVar Collection Concatenate Container "
              "ContextManager Coroutine Counter DefaultDict Deque Dict Final FrozenSet Generator Generic Hashable ItemsView Iterable Iterator KeysView List Literal LiteralString Mapping "
              "MappingView Match MutableMapping MutableSequence MutableSet Never NoReturn NotRequired Optional OrderedDict ParamSpecArgs ParamSpecKwargs Pattern Protocol ReadOnly Required "
              "Reversible Self Sequence Set Sized Tuple Type TypeAlias TypeGuard TypeIs Union Unpack ValuesView",
}

# Instances by their attributes. The methods of these classes read them as data.
_STATES = {
    "builtins": "object",
    "collections": "ChainMap UserDict UserList UserString",  # ChainMap is not to be called: with an array as its map, it writes to that array
    "uuid": "UUID",
    "argparse": "Namespace",
    "optparse": "Values",
    "logging": "LogRecord",
    "statistics": "LinearRegression NormalDist",
    "string": "Template",
    "calendar": "Calendar HTMLCalendar TextCalendar",
    "functools": "partialmethod",
    "contextlib": "nullcontext suppress",
    "json.encoder": "JSONEncoder",
    "reprlib": "Repr",
    "textwrap": "TextWrapper",
    "email.message": "Message",
    "email.charset": "Charset",
    "email._policybase": "Compat32",
    "http.cookies": "BaseCookie Morsel SimpleCookie",
    "xml.etree.ElementTree": "ElementTree",
    # Named tuples.
    "difflib": "Match",
    "dis": "Positions",
    "tokenize": "TokenInfo",
    "urllib.parse": "DefragResult DefragResultBytes ParseResult ParseResultBytes SplitResult SplitResultBytes",
}

# What a reduce method calls. Constructors that check all they are given, and (S) those that adapters.standard stands in for.
_CALLED = {
    "builtins": "bool bytearray bytes complex dict float frozenset int list set str tuple object.__new__",  # S: of plain values, no number becomes as many bytes
    "collections": "Counter OrderedDict defaultdict deque",  # S
    "types": "SimpleNamespace GenericAlias",  # S
    "datetime": "date datetime time timedelta timezone tzinfo",
    "zoneinfo": "ZoneInfo._unpickle",
    "decimal": "Context Decimal",  # S
    "fractions": "Fraction",  # S
    "pathlib": "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath",  # S
    "pathlib._local": "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath",  # S
    # Binds arguments to a callable of the same message; each of those may be handed on because it is harmless whatever its arguments.
    "functools": "partial",
    "array": "_array_reconstructor",  # S
    "copyreg": "_reconstructor",  # S
    "re": "_compile",  # S
    "ipaddress": "IPv4Address IPv4Interface IPv4Network IPv6Address IPv6Interface IPv6Network",
    "random": "Random",  # S; not SystemRandom
    "operator": "itemgetter",  # picks items; attrgetter and methodcaller reach everything, and stay out with getattr
    "_operator": "call getitem",  # S: of what may be called; of typing's forms
    "collections.abc": "_CallableGenericAlias",  # S
    "logging": "getLogger",  # S
    "inspect": "Parameter Signature",  # S
    "plistlib": "UID",
    # Records of the system, S.
    "time": "struct_time",
    "os": "stat_result statvfs_result terminal_size",
    "posix": "times_result uname_result",
    "resource": "struct_rusage",
    "pwd": "struct_passwd",
    "grp": "struct_group",
}

# S: members by their value.
ENUMERATIONS = {
    "calendar": "Day Month",
    "enum": "EnumCheck FlagBoundary",
    "http": "HTTPMethod HTTPStatus",
    "inspect": "_ParameterKind",
    "plistlib": "PlistFormat",
    "pstats": "SortKey",
    "re": "RegexFlag",
    "signal": "Handlers Sigmasks Signals",
    "socket": "AddressFamily AddressInfo MsgFlag SocketKind",
    "ssl": "AlertDescription Options SSLErrorNumber TLSVersion VerifyFlags VerifyMode _SSLMethod",
    "uuid": "SafeUUID",
}

# Exceptions, as results hold them: making one raises nothing, and these leave `__init__` to the interpreter's own classes.
EXCEPTIONS = {
    "builtins": "ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError BrokenPipeError BufferError BytesWarning ChildProcessError "
                "ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError DeprecationWarning EOFError EncodingWarning Exception ExceptionGroup "
                "FileExistsError FileNotFoundError FloatingPointError FutureWarning GeneratorExit ImportError ImportWarning IndentationError IndexError InterruptedError "
                "IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError NotADirectoryError NotImplementedError OSError "
                "OverflowError PendingDeprecationWarning PermissionError ProcessLookupError PythonFinalizationError RecursionError ReferenceError ResourceWarning RuntimeError RuntimeWarning "
                "StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError SystemExit TabError TimeoutError TypeError UnboundLocalError "
                "UnicodeDecodeError UnicodeEncodeError UnicodeError UnicodeTranslateError UnicodeWarning UserWarning ValueError Warning ZeroDivisionError",
    "_csv": "Error",
    "_lzma": "LZMAError",
    "_pickle": "PickleError PicklingError UnpicklingError",
    "_queue": "Empty",
    "argparse": "ArgumentTypeError",
    "asyncio.exceptions": "BrokenBarrierError CancelledError InvalidStateError SendfileNotAvailableError",
    "asyncio.queues": "QueueEmpty QueueFull QueueShutDown",
    "binascii": "Error Incomplete",
    "concurrent.futures._base": "BrokenExecutor CancelledError Error InvalidStateError",
    "concurrent.futures.process": "BrokenProcessPool",
    "concurrent.futures.thread": "BrokenThreadPool",
    "copy": "Error",
    "ctypes": "ArgumentError",
    "dataclasses": "FrozenInstanceError",
    "decimal": "Clamped ConversionSyntax DecimalException DivisionByZero DivisionImpossible DivisionUndefined FloatOperation Inexact InvalidContext InvalidOperation Overflow Rounded "
               "Subnormal Underflow",
    "email.errors": "BoundaryError CharsetError HeaderParseError HeaderWriteError MessageError MessageParseError MultipartConversionError",
    "ftplib": "Error error_perm error_proto error_reply error_temp",
    "getpass": "GetPassWarning",
    "graphlib": "CycleError",
    "gzip": "BadGzipFile",
    "http.client": "CannotSendHeader CannotSendRequest HTTPException ImproperConnectionState InvalidURL NotConnected ResponseNotReady UnimplementedFileMode UnknownTransferEncoding",
    "http.cookiejar": "LoadError",
    "http.cookies": "CookieError",
    "importlib.metadata": "PackageNotFoundError",
    "io": "UnsupportedOperation",
    "ipaddress": "AddressValueError NetmaskValueError",
    "locale": "Error",
    "mailbox": "Error ExternalClashError FormatError NoSuchMailboxError NotEmptyError",
    "multiprocessing.context": "AuthenticationError BufferTooShort ProcessError TimeoutError",
    "multiprocessing.managers": "RemoteError",
    "pathlib._abc": "UnsupportedOperation",
    "poplib": "error_proto",
    "queue": "Full ShutDown",
    "shutil": "Error ExecError ReadError RegistryError SameFileError SpecialFileError",
    "signal": "itimer_error",
    "smtplib": "SMTPException SMTPNotSupportedError SMTPServerDisconnected",
    "socket": "gaierror herror",
    "sqlite3": "DataError DatabaseError Error IntegrityError InterfaceError InternalError NotSupportedError OperationalError ProgrammingError Warning",
    "ssl": "SSLCertVerificationError SSLEOFError SSLError SSLSyscallError SSLWantReadError SSLWantWriteError SSLZeroReturnError",
    "statistics": "StatisticsError",
    "struct": "error",
    "subprocess": "SubprocessError",
    "tarfile": "CompressionError ExtractError FilterError HeaderError ReadError StreamError TarError",
    "termios": "error",
    "threading": "BrokenBarrierError",
    "tokenize": "TokenError",
    "tomllib": "TOMLDecodeError",
    "unittest.case": "SkipTest",
    "wave": "Error",
    "xml.etree.ElementTree": "ParseError",
    "xml.parsers.expat": "ExpatError",
    "xmlrpc.client": "Error ResponseError",
    "zipfile": "BadZipFile LargeZipFile",
    "zipimport": "ZipImportError",
    "zlib": "error",
    "zoneinfo._common": "ZoneInfoNotFoundError",
}

# S: exceptions with an `__init__` of their own, of text and numbers alone.
EXCEPTIONS_OF_ATOMS = {
    "asyncio.exceptions": "IncompleteReadError LimitOverrunError",
    "calendar": "IllegalMonthError IllegalWeekdayError",
    "configparser": "DuplicateOptionError DuplicateSectionError Error InterpolationDepthError InterpolationError InterpolationMissingOptionError InterpolationSyntaxError "
                    "MissingSectionHeaderError NoOptionError NoSectionError ParsingError",
    "getopt": "GetoptError",
    "http.client": "BadStatusLine IncompleteRead LineTooLong UnknownProtocol",
    "json.decoder": "JSONDecodeError",
    "netrc": "NetrcParseError",
    "plistlib": "InvalidFileException",
    "re": "PatternError error",
    "smtplib": "SMTPAuthenticationError SMTPConnectError SMTPDataError SMTPHeloError SMTPResponseException SMTPSenderRefused",
    "xml.sax._exceptions": "SAXException SAXNotRecognizedException SAXNotSupportedException SAXReaderNotAvailable",
}
# These keep what they are given and look at none of it.
_EXCEPTIONS_THAT_KEEP = {"subprocess": "CalledProcessError TimeoutExpired", "urllib.error": "URLError", "smtplib": "SMTPRecipientsRefused"}

# These do so as well; what they copy themselves is charged.
_THAT_KEEP = {
    "collections": "defaultdict", "collections.abc": "_CallableGenericAlias", "functools": "partial", "operator": "itemgetter", "time": "struct_time", "types": "GenericAlias SimpleNamespace",
}

NAMES: dict[str, int] = {}
for _homes, _role in (
    (_FUNCTIONS, HAND_ON), (_CLASSES, HAND_ON), ({"xml.etree.ElementTree": "Comment ProcessingInstruction"}, HAND_ON), (_STATES, MAKE), (_CALLED, CALL), (ENUMERATIONS, CALL | HAND_ON),
    (EXCEPTIONS, CALL | HAND_ON | KEEP), (EXCEPTIONS_OF_ATOMS, CALL | HAND_ON), (_EXCEPTIONS_THAT_KEEP, CALL | HAND_ON | KEEP), (_THAT_KEEP, CALL | KEEP),
):
    for _name in _names(_homes):
        NAMES[_name] = NAMES.get(_name, 0) | _role
