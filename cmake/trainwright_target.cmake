# Targets of this project: warnings are errors, dependencies are SYSTEM, floating point is reproducible.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Without the sloppiness nothing that uses a precompiled header is cached (ccache's manual, "Precompiled headers").
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
endif()

function(trainwright_options target)
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR})
  # -Wrestrict misfires on std::string operator+ (GCC bug 105651, g++ 12 and 13).
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wconversion -Wold-style-cast
                                           $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> -ffp-contract=off)
  if(TRAINWRIGHT_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(TRAINWRIGHT_SANITIZE)
    # Instrumented code confuses g++ 12 about std::optional and Boost.Graph's edges.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-uninitialized>)
    target_compile_options(${target} PUBLIC -fsanitize=${TRAINWRIGHT_SANITIZE} -fno-omit-frame-pointer -g1)
    target_link_options(${target} PUBLIC -fsanitize=${TRAINWRIGHT_SANITIZE})
  endif()
endfunction()

# trainwright_library(folder PUBLIC deps...): static library tw_<folder> of every .cpp below the folder, less main/.
function(trainwright_library folder)
  cmake_parse_arguments(ARG "" "" "PUBLIC" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main/")
  if(NOT sources)
    add_library(tw_${folder} INTERFACE)
    target_include_directories(tw_${folder} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(tw_${folder} INTERFACE ${ARG_PUBLIC})
    return()
  endif()
  add_library(tw_${folder} STATIC ${sources})
  trainwright_options(tw_${folder})
  target_link_libraries(tw_${folder} PUBLIC ${ARG_PUBLIC})
  if(NOT folder STREQUAL base)
    reuse_precompiled(tw_${folder} tw_models)
  endif()
endfunction()

function(trainwright_binary name source)
  add_executable(${name} ${source})
  trainwright_options(${name})
  target_link_libraries(${name} PRIVATE ${ARGN})
endfunction()
