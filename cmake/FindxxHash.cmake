# Finds xxHash (header and library): target xxHash::xxhash. Debian's libxxhash-dev has no CMake package.
# Static archives are taken where xxHash_USE_STATIC_LIBS or TRANSLOAD_STATIC_DEPENDENCIES is set.
include(FindPackageHandleStandardArgs)

find_path(xxHash_INCLUDE_DIR xxhash.h)
if(xxHash_USE_STATIC_LIBS OR TRANSLOAD_STATIC_DEPENDENCIES)
  find_library(xxHash_LIBRARY NAMES libxxhash.a xxhash)
else()
  find_library(xxHash_LIBRARY NAMES xxhash)
endif()
mark_as_advanced(xxHash_INCLUDE_DIR xxHash_LIBRARY)

if(xxHash_INCLUDE_DIR)
  file(STRINGS "${xxHash_INCLUDE_DIR}/xxhash.h" _xxhash_lines REGEX "#define +XXH_VERSION_(MAJOR|MINOR|RELEASE) +[0-9]+")
  string(REGEX REPLACE "[^0-9;]+" "" _xxhash_version "${_xxhash_lines}")
  list(JOIN _xxhash_version "." xxHash_VERSION)
endif()

find_package_handle_standard_args(xxHash REQUIRED_VARS xxHash_LIBRARY xxHash_INCLUDE_DIR VERSION_VAR xxHash_VERSION
  REASON_FAILURE_MESSAGE "in Debian it is libxxhash-dev")

if(xxHash_FOUND AND NOT TARGET xxHash::xxhash)
  add_library(xxHash::xxhash UNKNOWN IMPORTED)
  set_target_properties(xxHash::xxhash PROPERTIES
    IMPORTED_LOCATION "${xxHash_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${xxHash_INCLUDE_DIR}")
endif()
