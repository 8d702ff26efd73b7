# What every target of this project shares: ccache, warnings, sanitizers, and the list of rooms.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(TRANSLOAD_CCACHE ccache)
if(TRANSLOAD_CCACHE AND PROJECT_IS_TOP_LEVEL)
  foreach(language C CXX CUDA)
    if(NOT CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER "${TRANSLOAD_CCACHE}")
    endif()
  endforeach()
endif()

# Warnings and sanitizers, for the C++ files of our own targets only: users of the library inherit neither.
function(transload_flags target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${TRANSLOAD_WERROR}>>:-Werror>)
  if(TRANSLOAD_SANITIZE)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TRANSLOAD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer>)
    target_link_options(${target} PUBLIC $<BUILD_INTERFACE:-fsanitize=${TRANSLOAD_SANITIZE}>)
  endif()
endfunction()

# Adds the files of one room to the library; a name without a .cpp beside its header is a header-only part.
function(transload_room room)
  set(headers)
  set(sources)
  foreach(name IN LISTS ARGN)
    set(stem "${PROJECT_SOURCE_DIR}/src/transload/${room}/${name}")
    list(APPEND headers "${stem}.hpp")
    file(GLOB source CONFIGURE_DEPENDS "${stem}.cpp")  # a source that appears later is seen by the next build
    list(APPEND sources ${source})
  endforeach()
  if(headers)
    target_sources(transload PRIVATE ${sources}
      PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/src" FILES ${headers})
  endif()
endfunction()
