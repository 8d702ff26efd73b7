# `cmake --install` (component transload): library, headers, and a package for find_package(transload).
include(CMakePackageConfigHelpers)

set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/transload")
install(TARGETS transload EXPORT transload-targets
  COMPONENT transload
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT transload)
install(EXPORT transload-targets NAMESPACE transload:: DESTINATION "${_package_dir}" COMPONENT transload)

configure_package_config_file(cmake/transload-config.cmake.in "${PROJECT_BINARY_DIR}/transload-config.cmake"
  INSTALL_DESTINATION "${_package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/transload-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/transload-config.cmake"
  "${PROJECT_BINARY_DIR}/transload-config-version.cmake"
  cmake/FindxxHash.cmake
  cmake/Findlz4.cmake
  cmake/Findzstd.cmake
  DESTINATION "${_package_dir}" COMPONENT transload)
