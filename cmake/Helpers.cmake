# One helper per kind of target, so that warnings, sanitizers and include folders are said once.

add_library(motley_flags INTERFACE)
target_compile_options(motley_flags INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers)
target_include_directories(motley_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
if(MOTLEY_SANITIZE)
  target_compile_options(motley_flags INTERFACE -fsanitize=${MOTLEY_SANITIZE} -fno-sanitize-recover=all
                                                -fno-omit-frame-pointer)
  target_link_options(motley_flags INTERFACE -fsanitize=${MOTLEY_SANITIZE})
endif()

find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=true ${CCACHE})
endif()

# motley_library(NAME SOURCES a.cc ... LINK motley::below ...) makes motley::NAME.
function(motley_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(motley_${name} STATIC ${arg_SOURCES})
  add_library(motley::${name} ALIAS motley_${name})
  target_link_libraries(motley_${name} PUBLIC motley_flags ${arg_LINK})
endfunction()

# motley_program(NAME SOURCES a.cc ... LINK motley::below ...) makes the executable NAME in bin/.
function(motley_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE motley_flags ${arg_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

# motley_test(NAME SOURCES a_test.cc ... LINK motley::NAME ...) makes one GoogleTest executable, run by ctest as NAME.
function(motley_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name}_test ${arg_SOURCES})
  target_link_libraries(${name}_test PRIVATE motley_flags ${arg_LINK} GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name}_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES
    ENVIRONMENT "MOTLEY_PYTHON=${MOTLEY_PYTHON};MOTLEY_TEST_MODELS=${CMAKE_BINARY_DIR}/tests/models")
endfunction()
