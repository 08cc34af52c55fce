# pages.cmake - what the program writes about itself, made when it is built: manual pages, completions and references; and where `make
# install` and `make dist` put them, the documents and the configurations. The references are committed too, for who reads the
# source: `make reference` copies what was built there, and the build says when they differ.
set(pages ${CMAKE_BINARY_DIR}/pages)
set(FT_PAGES
  "share/man/man1/ftengine.1|help --man"
  "share/man/man5/ftengine-config.5|config --man"
  "share/bash-completion/completions/ftengine|completion bash"
  "share/zsh/site-functions/_ftengine|completion zsh"
  "share/fish/vendor_completions.d/ftengine.fish|completion fish")

set(made "")
foreach(page ${FT_PAGES})
  string(REPLACE "|" ";" page "${page}")
  list(GET page 0 path)
  list(GET page 1 words)
  get_filename_component(folder ${path} DIRECTORY)
  separate_arguments(words)
  add_custom_command(OUTPUT ${pages}/${path} COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}/${folder}
    COMMAND $<TARGET_FILE:ftengine> ${words} > ${pages}/${path} DEPENDS ftengine VERBATIM)
  list(APPEND made ${pages}/${path})
  install(FILES ${pages}/${path} DESTINATION ${folder} COMPONENT program)
  install(FILES ${pages}/${path} DESTINATION ${folder} COMPONENT dist EXCLUDE_FROM_ALL)
endforeach()

set(FT_REFERENCES "configs/reference.ini|config" "docs/reference/options.md|config --markdown" "docs/reference/commands.md|help --markdown")
set(copies "")
foreach(page ${FT_REFERENCES})
  string(REPLACE "|" ";" page "${page}")
  list(GET page 0 path)
  list(GET page 1 words)
  get_filename_component(folder ${path} DIRECTORY)
  separate_arguments(words)
  add_custom_command(OUTPUT ${pages}/${path} COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}/${folder}
    COMMAND $<TARGET_FILE:ftengine> ${words} > ${pages}/${path}
    COMMAND ${CMAKE_COMMAND} -E compare_files ${pages}/${path} ${CMAKE_SOURCE_DIR}/${path}
      || ${CMAKE_COMMAND} -E echo "note: ${path} is not what the program says now: make reference"
    DEPENDS ftengine VERBATIM)
  list(APPEND made ${pages}/${path})
  list(APPEND copies COMMAND ${CMAKE_COMMAND} -E copy_if_different ${pages}/${path} ${CMAKE_SOURCE_DIR}/${path})
endforeach()
add_custom_target(pages ALL DEPENDS ${made})
add_custom_target(reference ${copies} DEPENDS ${made} COMMENT "References in configs and docs" VERBATIM)

foreach(component "program" "dist;EXCLUDE_FROM_ALL")
  install(FILES README.md LICENSE NOTICE CHANGELOG.md DESTINATION share/doc/ftengine COMPONENT ${component})
  install(DIRECTORY docs DESTINATION share/doc/ftengine COMPONENT ${component})
  install(DIRECTORY configs DESTINATION share/ftengine COMPONENT ${component})
endforeach()
