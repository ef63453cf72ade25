// SPDX-License-Identifier: Apache-2.0
// What this process had to compile, as a small file in the cache folder: `python -m torch_tpu cache
// explain` reads it. Called from the store queue's thread only. Trouble with the disk is silent:
// the log is a convenience.
#pragma once

#include <string>

namespace torch_tpu::program {

// Appends one line to runs/<seconds>-<pid>.log of `folder`. The first line of a process makes the
// file and removes all but the newest few of others.
void AppendToRunLog(const std::string& folder, const std::string& line);

}  // namespace torch_tpu::program
