# Manual pages, written from the commands' own descriptions, and what `cmake --install` puts where.

include(GNUInstallDirs)
trainwright_binary(write_man_pages cli/main/write_man_pages.cpp tw_cli)
set(TW_MAN_PAGES ${CMAKE_BINARY_DIR}/man)
add_custom_command(
  OUTPUT ${TW_MAN_PAGES}/trainwright.1
  COMMAND write_man_pages ${TW_MAN_PAGES}
  DEPENDS write_man_pages
  VERBATIM)
add_custom_target(man_pages ALL DEPENDS ${TW_MAN_PAGES}/trainwright.1)

set_target_properties(trainwright-exec trainwright-profile PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS trainwright trainwright-exec trainwright-profile RUNTIME)
if(TARGET trainwright_cuda)  # looked for beside the program and in ../lib; its own paths to CUDA stay
  install(FILES $<TARGET_FILE:trainwright_cuda> DESTINATION lib)
endif()
if(TARGET trainwright-gui)
  install(TARGETS trainwright-gui RUNTIME)
endif()
install(DIRECTORY ${TW_MAN_PAGES}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
