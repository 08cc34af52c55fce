# dist.cmake - the tarball that `make dist` writes: a program that needs the C library alone, the CUDA kernels beside it, the
# configurations, and the licences of what was linked in. It runs from wherever it is unpacked; cuBLASLt, the driver and
# libcurl are looked for when they are used.
foreach(name ${FT_THIRD_PARTY})
  if(NOT FT_${name}_ARCHIVE)
    message(STATUS "no `make dist`: there is no archive of ${name}")
    return()
  endif()
endforeach()

# The licences of what is linked in travel with it; where the packages of Debian and Ubuntu have them.
foreach(package libjansson-dev libinih-dev libpcre2-dev libssl-dev libjpeg-dev libpng-dev libwebp-dev zlib1g-dev libzstd-dev libsqlite3-dev)
  if(NOT EXISTS /usr/share/doc/${package}/copyright)
    message(STATUS "no `make dist`: there is no licence of ${package} in /usr/share/doc")
    return()
  endif()
endforeach()

add_executable(ftengine_dist EXCLUDE_FROM_ALL ftengine.c)
set_target_properties(ftengine_dist PROPERTIES FT_ARCHIVES ON OUTPUT_NAME ftengine RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/dist)
target_link_libraries(ftengine_dist PRIVATE ft_engine ft_hpo)
target_link_options(ftengine_dist PRIVATE -static-libgcc)
add_custom_target(dist_files DEPENDS ftengine_dist pages $<TARGET_NAME_IF_EXISTS:ftengine_cuda> $<TARGET_NAME_IF_EXISTS:ftengine_cuda12>)

install(TARGETS ftengine_dist RUNTIME DESTINATION bin COMPONENT dist EXCLUDE_FROM_ALL)
foreach(package libjansson-dev libinih-dev libpcre2-dev libssl-dev libjpeg-dev libpng-dev libwebp-dev zlib1g-dev libzstd-dev libsqlite3-dev)
  install(FILES /usr/share/doc/${package}/copyright DESTINATION share/doc/ftengine/licences RENAME ${package} COMPONENT dist
    EXCLUDE_FROM_ALL)
endforeach()

set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_FILE_NAME ftengine-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_COMPONENTS_ALL dist kernels)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
