# zeroshard_add_isa_sources(<target> <stem>)
# One source per instruction set, <stem>_scalar.cpp and so on, each with flags of its own;
# zeroshard/numeric/isa.cpp chooses. no_avx.cpp stands in for those that the target lacks.
function(zeroshard_add_isa_sources target stem)
  # Nobody reads errno of a square root, and nobody traps: without both the loops vectorise.
  target_sources(${target} PRIVATE ${stem}_scalar.cpp)
  set_source_files_properties(${stem}_scalar.cpp PROPERTIES COMPILE_OPTIONS
    "-fno-math-errno;-fno-trapping-math")
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    target_sources(${target} PRIVATE no_avx.cpp)
    return()
  endif()
  target_sources(${target} PRIVATE ${stem}_avx2.cpp ${stem}_avx512.cpp)
  set_source_files_properties(${stem}_avx2.cpp PROPERTIES COMPILE_OPTIONS "-mavx2;-mf16c")
  # GCC's own AVX-512 headers make it warn of uninitialised values (GCC bug 105593).
  set_source_files_properties(${stem}_avx512.cpp PROPERTIES COMPILE_OPTIONS
    "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>;$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>")
endfunction()
