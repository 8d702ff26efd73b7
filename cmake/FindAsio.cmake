# Finds standalone Asio (headers only): sets asio_INCLUDE_DIR and asio_VERSION. Debian's libasio-dev has no CMake package.
# No target: transload's own sources include it and nobody else needs it, also not who links a static transload.
include(FindPackageHandleStandardArgs)

find_path(asio_INCLUDE_DIR asio.hpp)
mark_as_advanced(asio_INCLUDE_DIR)

if(asio_INCLUDE_DIR)
  file(STRINGS "${asio_INCLUDE_DIR}/asio/version.hpp" _asio_line REGEX "#define +ASIO_VERSION +[0-9]+")
  string(REGEX REPLACE ".*ASIO_VERSION +([0-9]+).*" "\\1" _asio_number "${_asio_line}")
  math(EXPR _asio_major "${_asio_number} / 100000")
  math(EXPR _asio_minor "${_asio_number} / 100 % 1000")
  math(EXPR _asio_patch "${_asio_number} % 100")
  set(asio_VERSION "${_asio_major}.${_asio_minor}.${_asio_patch}")
endif()

find_package_handle_standard_args(Asio REQUIRED_VARS asio_INCLUDE_DIR VERSION_VAR asio_VERSION
  REASON_FAILURE_MESSAGE "in Debian it is libasio-dev")
