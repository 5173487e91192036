# What reads configurations of other frameworks (plan/frameworks/import): toml++, and yaml-cpp where it is installed. Two
# sources include them, so that the library is compiled as it is without them.
if(TRAINWRIGHT_EXECUTOR_ONLY)
  return()
endif()
target_link_libraries(tw_plan INTERFACE $<LINK_ONLY:tomlplusplus::tomlplusplus>)
set_source_files_properties(plan/frameworks/import/toml_document.cpp PROPERTIES
  COMPILE_OPTIONS "$<TARGET_PROPERTY:tomlplusplus::tomlplusplus,INTERFACE_COMPILE_OPTIONS>")
find_package(yaml-cpp QUIET)
if(yaml-cpp_FOUND)
  set(TW_YAML yaml-cpp)
  if(TARGET yaml-cpp::yaml-cpp)
    set(TW_YAML yaml-cpp::yaml-cpp)
  endif()
  target_link_libraries(tw_plan INTERFACE $<LINK_ONLY:${TW_YAML}>)
  set_source_files_properties(plan/frameworks/import/yaml_document.cpp PROPERTIES COMPILE_DEFINITIONS TW_WITH_YAML)
endif()
