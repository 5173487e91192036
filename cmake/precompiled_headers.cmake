# Headers that most sources include, compiled once for each set of compiler flags: two fifths of a build's time. With g++
# alone: clang-tidy and the fuzz preset's clang read the sources as they are written, and so find a missing include.

if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  option(TRAINWRIGHT_PCH "compile common headers once" ON)
else()
  set(TRAINWRIGHT_PCH OFF)
endif()

# g++ 12 misfires about std::string in inlined library code, and takes a precompiled header's code for ours.
set(TW_PCH_OPTIONS -fpch-preprocess -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)  # the first: for ccache

# precompiled_headers(target header...): compiles these headers for a target, and for those that reuse them.
function(precompiled_headers target)
  if(TRAINWRIGHT_PCH)
    target_precompile_headers(${target} PRIVATE ${ARGN})
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${TW_PCH_OPTIONS}>")
  endif()
endfunction()

# reuse_precompiled(target owner): target is compiled with the flags of owner, and takes its headers.
function(reuse_precompiled target owner)
  if(TRAINWRIGHT_PCH AND TARGET ${owner} AND NOT target STREQUAL owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${TW_PCH_OPTIONS}>")
  endif()
endfunction()
