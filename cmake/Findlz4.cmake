# Finds lz4 (header and library): target lz4::lz4. Debian's liblz4-dev has no CMake package.
# Static archives are taken where lz4_USE_STATIC_LIBS or TRANSLOAD_STATIC_DEPENDENCIES is set.
include(FindPackageHandleStandardArgs)

find_path(lz4_INCLUDE_DIR lz4.h)
if(lz4_USE_STATIC_LIBS OR TRANSLOAD_STATIC_DEPENDENCIES)
  find_library(lz4_LIBRARY NAMES liblz4.a lz4)
else()
  find_library(lz4_LIBRARY NAMES lz4)
endif()
mark_as_advanced(lz4_INCLUDE_DIR lz4_LIBRARY)

if(lz4_INCLUDE_DIR)
  file(STRINGS "${lz4_INCLUDE_DIR}/lz4.h" _lz4_lines REGEX "#define +LZ4_VERSION_(MAJOR|MINOR|RELEASE) +[0-9]+")
  set(_lz4_version)
  foreach(_line IN LISTS _lz4_lines)
    string(REGEX REPLACE ".*(MAJOR|MINOR|RELEASE) +([0-9]+).*" "\\2" _number "${_line}")
    list(APPEND _lz4_version "${_number}")
  endforeach()
  list(JOIN _lz4_version "." lz4_VERSION)
endif()

find_package_handle_standard_args(lz4 REQUIRED_VARS lz4_LIBRARY lz4_INCLUDE_DIR VERSION_VAR lz4_VERSION
  REASON_FAILURE_MESSAGE "in Debian it is liblz4-dev")

if(lz4_FOUND AND NOT TARGET lz4::lz4)
  add_library(lz4::lz4 UNKNOWN IMPORTED)
  set_target_properties(lz4::lz4 PROPERTIES
    IMPORTED_LOCATION "${lz4_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${lz4_INCLUDE_DIR}")
endif()
