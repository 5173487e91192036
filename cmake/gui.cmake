# The desktop GUI on Qt 6 Widgets: TRAINWRIGHT_GUI=AUTO builds it where Qt 6 and QCustomPlot are installed; ON fails without
# them; OFF leaves it out. Library tw_gui_view (gui/view: geometry without widgets) needs no Qt and is always built.

set(TRAINWRIGHT_GUI AUTO CACHE STRING "build trainwright-gui: AUTO, ON or OFF")
set_property(CACHE TRAINWRIGHT_GUI PROPERTY STRINGS AUTO ON OFF)

option(TRAINWRIGHT_GUI_UNITY "compile several sources of the GUI together: a third of the work where no cache helps" OFF)

file(GLOB gui_view_sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/gui/view/*.cpp)
if(gui_view_sources)
  add_library(tw_gui_view STATIC ${gui_view_sources})
  trainwright_options(tw_gui_view)
  target_link_libraries(tw_gui_view PUBLIC tw_plan tw_sim)
  reuse_precompiled(tw_gui_view tw_models)
else()
  add_library(tw_gui_view INTERFACE)
  target_link_libraries(tw_gui_view INTERFACE tw_plan tw_sim)
endif()

set(TW_GUI_FOUND OFF)
if(NOT TRAINWRIGHT_GUI STREQUAL OFF)
  if(TRAINWRIGHT_GUI STREQUAL ON)
    find_package(Qt6 6.4 REQUIRED COMPONENTS Widgets Svg PrintSupport Test)
    find_package(QCustomPlotQt6 REQUIRED)
  else()
    find_package(Qt6 6.4 QUIET COMPONENTS Widgets Svg PrintSupport Test)
    find_package(QCustomPlotQt6 QUIET)
  endif()
  if(TARGET Qt6::Widgets AND TARGET Qt6::Svg AND TARGET Qt6::PrintSupport AND TARGET QCustomPlotQt6::QCustomPlotQt6)
    set(TW_GUI_FOUND ON)
  endif()
endif()

# gui_options(target): Qt's meta-object compiler for the targets of the GUI alone.
function(gui_options target)
  trainwright_options(${target})
  set_target_properties(${target} PROPERTIES AUTOMOC ON)
  target_compile_definitions(${target} PRIVATE QT_NO_KEYWORDS QT_NO_FOREACH)
endfunction()

if(TW_GUI_FOUND)
  # QCustomPlot's own headers convert and shadow freely.
  file(GLOB_RECURSE gui_sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/gui/*.cpp)
  list(FILTER gui_sources EXCLUDE REGEX "^gui/(main|view)/")
  file(GLOB_RECURSE gui_headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/gui/*.hpp)
  list(FILTER gui_headers EXCLUDE REGEX "^gui/(main|view)/")
  add_library(tw_gui STATIC ${gui_sources} ${gui_headers})
  gui_options(tw_gui)
  target_link_libraries(tw_gui PUBLIC tw_planner tw_gui_view Qt6::Widgets Qt6::Svg Qt6::PrintSupport QCustomPlotQt6::QCustomPlotQt6)
  precompiled_headers(tw_gui ${CMAKE_SOURCE_DIR}/cmake/precompiled.hpp <QtWidgets/QtWidgets>)
  # qcustomplot.h wants Qt's keywords, which the precompiled headers are without.
  set_source_files_properties(gui/widgets/plot.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  if(TRAINWRIGHT_GUI_UNITY)
    set_target_properties(tw_gui PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
    file(GLOB timeline_sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/gui/widgets/timeline_*.cpp
         ${CMAKE_SOURCE_DIR}/gui/widgets/memory_*.cpp ${CMAKE_SOURCE_DIR}/gui/widgets/compare_timelines.cpp
         ${CMAKE_SOURCE_DIR}/gui/widgets/range_panel.cpp ${CMAKE_SOURCE_DIR}/gui/widgets/prompt_bar.cpp
         ${CMAKE_SOURCE_DIR}/gui/widgets/picture_file.cpp ${CMAKE_SOURCE_DIR}/gui/widgets/plot.cpp)
    set_source_files_properties(${timeline_sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  add_executable(trainwright-gui gui/main/trainwright_gui.cpp)
  trainwright_options(trainwright-gui)
  target_link_libraries(trainwright-gui PRIVATE tw_gui)
  message(STATUS "GUI: Qt ${Qt6_VERSION}")
else()
  message(STATUS "GUI: not built (TRAINWRIGHT_GUI=${TRAINWRIGHT_GUI})")
endif()
