# embed_documents(target folder): compiles every <folder>/<kind>/<name>.json into the binary, so that presets need no
# installed files. models/data/embedded.hpp declares how to read them.
function(embed_documents target folder)
  file(GLOB_RECURSE documents CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/${folder} ${CMAKE_SOURCE_DIR}/${folder}/*.json)
  list(SORT documents)
  set(paths ${documents})
  list(TRANSFORM paths PREPEND ${CMAKE_SOURCE_DIR}/${folder}/)
  set(output ${CMAKE_BINARY_DIR}/generated/embedded_${target}.cpp)
  string(REPLACE ";" "|" joined "${documents}")
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_SOURCE_DIR}/${folder} "-DDOCUMENTS=${joined}" -DOUTPUT=${output}
            -P ${CMAKE_SOURCE_DIR}/cmake/write_embedded.cmake
    DEPENDS ${paths} ${CMAKE_SOURCE_DIR}/cmake/write_embedded.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
