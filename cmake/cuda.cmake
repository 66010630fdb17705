# The GPU side: every *.cu under kernels/ and src/. A file named *_sm90.cu uses Hopper's own instructions and is built
# for sm_90a alone; one named *_sm100.cu uses Blackwell's and is built for sm_100a alone, where the toolkit knows it and
# some 100 is among SDM_CUDA_ARCHS, else its twin no_sm100_*.cpp stands for it; all others are portable and built for
# SDM_CUDA_ARCHS.
set(CMAKE_CUDA_ARCHITECTURES OFF)
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

set(SDM_CUDA_FLAGS -std=c++20 -fmad=false -ftz=false -prec-div=true -prec-sqrt=true -lineinfo --expt-relaxed-constexpr
    --extended-lambda -diag-suppress=186 -Xcompiler=-Wall,-Wextra,-Wno-restrict,-ffp-contract=off)  # GCC 12: -Wrestrict is wrong about string + string
if(SDM_WERROR)
  list(APPEND SDM_CUDA_FLAGS -Werror=all-warnings)
endif()
target_compile_options(sdm_options INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${SDM_CUDA_FLAGS}>")
target_compile_definitions(sdm_options INTERFACE SDM_WITH_CUDA=1)
list(JOIN SDM_CUDA_ARCHS "," SDM_CUDA_ARCH_LIST)
set_source_files_properties(src/backend/cuda_devices.cpp PROPERTIES COMPILE_DEFINITIONS
    "SDM_CUDA_ARCH_LIST=\"${SDM_CUDA_ARCH_LIST}\"")

file(GLOB_RECURSE SDM_CUDA_SOURCES CONFIGURE_DEPENDS kernels/*.cu src/*.cu)
set(SDM_SM90_SOURCES ${SDM_CUDA_SOURCES})
list(FILTER SDM_SM90_SOURCES INCLUDE REGEX "_sm90\\.cu$")
set(SDM_SM100_SOURCES ${SDM_CUDA_SOURCES})
list(FILTER SDM_SM100_SOURCES INCLUDE REGEX "_sm100\\.cu$")
list(FILTER SDM_CUDA_SOURCES EXCLUDE REGEX "_sm(90|100)\\.cu$")

function(sdm_add_kernels name archs)
  if(ARGN)
    add_library(${name} OBJECT ${ARGN})
    target_link_libraries(${name} PRIVATE sdm_options CUDA::cudart_static)
    set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES "${archs}" CUDA_RUNTIME_LIBRARY Static)
    target_sources(sdm_core PRIVATE $<TARGET_OBJECTS:${name}>)
  endif()
endfunction()
sdm_add_kernels(sdm_kernels "${SDM_CUDA_ARCHS}" ${SDM_CUDA_SOURCES})
sdm_add_kernels(sdm_kernels_sm90 "90a-real" ${SDM_SM90_SOURCES})
if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8 AND SDM_CUDA_ARCH_LIST MATCHES "(^|,)100")
  sdm_add_kernels(sdm_kernels_sm100 "100a-real" ${SDM_SM100_SOURCES})
else()
  target_sources(sdm_core PRIVATE ${SDM_NO_SM100_SOURCES})
endif()
target_link_libraries(sdm_core PUBLIC CUDA::cudart_static CUDA::nvtx3 ${CMAKE_DL_LIBS})
set_target_properties(sdm_core PROPERTIES CUDA_RUNTIME_LIBRARY Static)
