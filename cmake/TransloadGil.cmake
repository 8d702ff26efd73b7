# transload_needs_gil(PYTHON): ends the configuration with an explanation where that interpreter is a free-threaded build.
# As a script: cmake -DPYTHON=/path/to/python -P cmake/TransloadGil.cmake
function(transload_needs_gil python)
  execute_process(COMMAND "${python}" -c "import sysconfig; print(sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
    OUTPUT_VARIABLE without_gil OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  if(without_gil)
    message(FATAL_ERROR
      "transload needs a CPython with the GIL, and ${python} is a free-threaded build. Its walk over an object relies on "
      "the GIL for what other threads may do meanwhile (docs/processes.md). Use the ordinary build of the same version.")
  endif()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  transload_needs_gil("${PYTHON}")
endif()
