# LibTorch, CUDA and NCCL from the virtual environment's wheels, as imported targets. The wheels carry libcudart.so.13 and
# no libcudart.so, which find_package(Torch) cannot cope with; a LibTorch that was unpacked by hand is taken with
# -DMOTLEY_TORCH_DIR=/path/to/libtorch (and CUDA beside it with -DMOTLEY_CUDA_DIR, NCCL with -DMOTLEY_NCCL_DIR).

set(MOTLEY_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python CACHE FILEPATH "Python with the locked packages")
execute_process(COMMAND ${MOTLEY_PYTHON} -c "import sysconfig; print(sysconfig.get_path('purelib'))"
                OUTPUT_VARIABLE site_packages OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(MOTLEY_TORCH_DIR ${site_packages}/torch CACHE PATH "LibTorch: a folder with include/ and lib/")
set(MOTLEY_CUDA_DIR ${site_packages}/nvidia/cu13 CACHE PATH "CUDA runtime: a folder with include/ and lib/")
set(MOTLEY_NCCL_DIR ${site_packages}/nvidia/nccl CACHE PATH "NCCL: a folder with include/ and lib/")

# LibTorch's include folders come last: they carry an fmt and a protobuf of their own.
add_library(motley_torch_headers INTERFACE)
target_compile_options(motley_torch_headers INTERFACE
  "SHELL:-idirafter ${MOTLEY_TORCH_DIR}/include" "SHELL:-idirafter ${MOTLEY_TORCH_DIR}/include/torch/csrc/api/include"
  "SHELL:-idirafter ${MOTLEY_CUDA_DIR}/include" "SHELL:-idirafter ${MOTLEY_NCCL_DIR}/include")
if(MOTLEY_SANITIZE MATCHES thread)
  target_compile_options(motley_torch_headers INTERFACE -Wno-tsan)  # LibTorch has fences, which it does not see
endif()
add_library(motley::torch_headers ALIAS motley_torch_headers)

function(motley_imported name library)
  if(NOT EXISTS ${library})
    message(FATAL_ERROR "${library} is not there: run `make setup`, or point MOTLEY_TORCH_DIR, MOTLEY_CUDA_DIR and "
                        "MOTLEY_NCCL_DIR at a LibTorch, a CUDA runtime and an NCCL")
  endif()
  add_library(${name} SHARED IMPORTED)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${library})
endfunction()
file(GLOB cudart ${MOTLEY_CUDA_DIR}/lib/libcudart.so*)
file(GLOB nccl ${MOTLEY_NCCL_DIR}/lib/libnccl.so*)
list(GET cudart 0 cudart)
list(GET nccl 0 nccl)
motley_imported(libc10 ${MOTLEY_TORCH_DIR}/lib/libc10.so)
motley_imported(libc10_cuda ${MOTLEY_TORCH_DIR}/lib/libc10_cuda.so)
motley_imported(libtorch_cpu ${MOTLEY_TORCH_DIR}/lib/libtorch_cpu.so)
motley_imported(libtorch_cuda ${MOTLEY_TORCH_DIR}/lib/libtorch_cuda.so)
motley_imported(libcudart ${cudart})
motley_imported(libnccl ${nccl})

add_library(motley_torch INTERFACE)
target_link_libraries(motley_torch INTERFACE motley_torch_headers libtorch_cpu libc10)
target_link_options(motley_torch INTERFACE -Wl,--allow-shlib-undefined)
add_library(motley::torch ALIAS motley_torch)
# libtorch_cuda registers its kernels when it is loaded, though nothing refers to it by name.
add_library(motley_torch_cuda INTERFACE)
target_link_libraries(motley_torch_cuda INTERFACE motley_torch -Wl,--no-as-needed libtorch_cuda -Wl,--as-needed libc10_cuda
                                                  libcudart libnccl)
add_library(motley::torch_cuda ALIAS motley_torch_cuda)
