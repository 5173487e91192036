# Module trainwright_cuda: the CUDA backend and the NCCL transport, opened at run time (real_exec/backend/cuda_module.hpp),
# so that one program runs where CUDA is not installed. TRAINWRIGHT_CUDA=AUTO builds it where nvcc is; ON fails without.

set(TRAINWRIGHT_CUDA_ARCHS 90 CACHE STRING "GPU architectures of the CUDA module: 80 (A100), 90 (H100, H200), 100 (B200)")

set(TW_CUDA_FOUND OFF)
if(TRAINWRIGHT_CUDA STREQUAL ON OR (TRAINWRIGHT_CUDA STREQUAL AUTO AND NOT TRAINWRIGHT_SANITIZE))
  set(CMAKE_CUDA_ARCHITECTURES ${TRAINWRIGHT_CUDA_ARCHS})
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit QUIET)
  endif()
  if(CMAKE_CUDA_COMPILER AND TARGET CUDA::cublasLt)
    set(TW_CUDA_FOUND ON)
  elseif(TRAINWRIGHT_CUDA STREQUAL ON)
    message(FATAL_ERROR "TRAINWRIGHT_CUDA=ON, but nvcc or cuBLASLt is not here")
  endif()
endif()

if(TW_CUDA_FOUND)
  # CMake 3.25 knows no C++20 for nvcc.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  if(CCACHE_PROGRAM)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  endif()
  file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/real_exec/backend/cuda/*.cu
       ${CMAKE_SOURCE_DIR}/real_exec/backend/cuda/*.cpp)
  find_path(NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib)
  set(cuda_description "CUDA ${CUDAToolkit_VERSION}, without NCCL")
  if(NCCL_INCLUDE AND NCCL_LIBRARY)
    file(GLOB nccl_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/real_exec/comm/nccl/*.cu
         ${CMAKE_SOURCE_DIR}/real_exec/comm/nccl/*.cpp)
    set(cuda_description "CUDA ${CUDAToolkit_VERSION}, NCCL")
  endif()
  # Its own copy of the few files of ours that it uses: a module takes nothing from the program that opens it.
  add_library(trainwright_cuda MODULE ${cuda_sources} ${nccl_sources} ${CMAKE_SOURCE_DIR}/base/check.cpp
              ${CMAKE_SOURCE_DIR}/base/result.cpp ${CMAKE_SOURCE_DIR}/real_exec/backend/backend.cpp)
  set_target_properties(trainwright_cuda PROPERTIES
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF CUDA_ARCHITECTURES "${TRAINWRIGHT_CUDA_ARCHS}"
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  target_include_directories(trainwright_cuda PRIVATE ${CMAKE_SOURCE_DIR})
  list(JOIN TRAINWRIGHT_CUDA_ARCHS ", sm_" cuda_archs)
  target_compile_definitions(trainwright_cuda PRIVATE TW_CUDA_DESCRIPTION="${cuda_description}, sm_${cuda_archs}")
  target_compile_options(trainwright_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wold-style-cast -Wno-restrict>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${TRAINWRIGHT_WERROR}>>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TRAINWRIGHT_WERROR}>>:-Werror=all-warnings>)
  target_link_libraries(trainwright_cuda PRIVATE CUDA::cudart CUDA::cublasLt)
  target_link_options(trainwright_cuda PRIVATE LINKER:--no-undefined LINKER:--exclude-libs,ALL)
  if(nccl_sources)
    target_include_directories(trainwright_cuda SYSTEM PRIVATE ${NCCL_INCLUDE})
    target_link_libraries(trainwright_cuda PRIVATE ${NCCL_LIBRARY})
    target_compile_definitions(trainwright_cuda PRIVATE TW_HAVE_NCCL=1)
  endif()
  message(STATUS "CUDA module: ${cuda_description}, sm_${cuda_archs}")
else()
  message(STATUS "CUDA module: not built (TRAINWRIGHT_CUDA=${TRAINWRIGHT_CUDA})")
endif()

# The program opens the module whether or not this build makes one.
target_link_libraries(tw_real_exec PUBLIC ${CMAKE_DL_LIBS})
