# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT: a source file with one hash over SOURCES, so that a changed lowering changes each key.
string(REPLACE "|" ";" SOURCES "${SOURCES}")
list(SORT SOURCES)
set(all "")
foreach(source ${SOURCES})
  file(SHA256 ${source} hash)
  string(APPEND all "${hash}")
endforeach()
string(SHA256 hash "${all}")
file(WRITE ${OUTPUT} "namespace torch_tpu::program {
extern const char kContentHash[];
const char kContentHash[] = \"${hash}\";
}  // namespace torch_tpu::program
")
