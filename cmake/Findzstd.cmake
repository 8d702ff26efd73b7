# Finds zstd (header and library): target zstd::zstd. Not every libzstd-dev brings a CMake package.
# Static archives are taken where zstd_USE_STATIC_LIBS or TRANSLOAD_STATIC_DEPENDENCIES is set.
include(FindPackageHandleStandardArgs)

find_path(zstd_INCLUDE_DIR zstd.h)
if(zstd_USE_STATIC_LIBS OR TRANSLOAD_STATIC_DEPENDENCIES)
  find_library(zstd_LIBRARY NAMES libzstd.a zstd)
else()
  find_library(zstd_LIBRARY NAMES zstd)
endif()
mark_as_advanced(zstd_INCLUDE_DIR zstd_LIBRARY)

if(zstd_INCLUDE_DIR)
  file(STRINGS "${zstd_INCLUDE_DIR}/zstd.h" _zstd_lines REGEX "#define +ZSTD_VERSION_(MAJOR|MINOR|RELEASE) +[0-9]+")
  set(_zstd_version)
  foreach(_line IN LISTS _zstd_lines)
    string(REGEX REPLACE ".*(MAJOR|MINOR|RELEASE) +([0-9]+).*" "\\2" _number "${_line}")
    list(APPEND _zstd_version "${_number}")
  endforeach()
  list(JOIN _zstd_version "." zstd_VERSION)
endif()

find_package_handle_standard_args(zstd REQUIRED_VARS zstd_LIBRARY zstd_INCLUDE_DIR VERSION_VAR zstd_VERSION
  REASON_FAILURE_MESSAGE "in Debian it is libzstd-dev")

if(zstd_FOUND AND NOT TARGET zstd::zstd)
  add_library(zstd::zstd UNKNOWN IMPORTED)
  set_target_properties(zstd::zstd PROPERTIES
    IMPORTED_LOCATION "${zstd_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${zstd_INCLUDE_DIR}")
endif()
