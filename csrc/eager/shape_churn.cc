// SPDX-License-Identifier: Apache-2.0
#include "csrc/eager/shape_churn.h"

#include <c10/util/Exception.h>

#include <mutex>
#include <unordered_map>
#include <vector>

#include "csrc/base/counters.h"
#include "csrc/base/hash.h"

namespace torch_tpu::eager {
namespace {

constexpr int kSteps = 10;

struct Pattern {
  int64_t last_step = -1;
  int steps = 0;
};

// Everything in the call but sizes.
uint64_t PatternOf(const ops::Call& call) {
  std::vector<uint64_t> words{reinterpret_cast<uintptr_t>(call.schema)};
  for (const ops::Arg& arg : call.args) {
    words.push_back(static_cast<uint64_t>(arg.kind));
    for (const ops::TensorArg& tensor : arg.tensors) {
      words.push_back(static_cast<uint64_t>(tensor.view.dtype) << 8 | tensor.view.sizes.size());
    }
  }
  return HashWords(words.data(), words.size()).lo;
}

std::string SizesOf(const ops::Call& call) {
  std::string text;
  for (const ops::Arg& arg : call.args) {
    for (const ops::TensorArg& tensor : arg.tensors) {
      text += (text.empty() ? "" : ", ") + hlo::ToString(tensor.view.sizes);
    }
  }
  return text;
}

}  // namespace

void NoteNewSignature(const ops::Call& call) {
  static std::mutex mutex;
  static auto* patterns = new std::unordered_map<uint64_t, Pattern>();
  static bool reported = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (reported) return;
    Pattern& pattern = (*patterns)[PatternOf(call)];
    int64_t step = Get(Counter::kHostReads);
    if (step == pattern.last_step) return;
    pattern.last_step = step;
    if (++pattern.steps < kSteps) return;
    reported = true;
  }
  TORCH_WARN("tpu: ", call.schema->name, " met new sizes in ", kSteps, " steps, last ",
             SizesOf(call),
             "; each new size compiles. Try: pad to a few sizes with torch.tpu.bucket (last batch, "
             "growing sequence). This is said once; torch.tpu.metrics()['compiles'] counts.");
}

}  // namespace torch_tpu::eager
