// SPDX-License-Identifier: Apache-2.0
// Defer and fuse: calls recorded until the window closes, then run as one Program. One window per
// device, shared by the threads that record there; thread safe. Bounded in ops and bytes, and cut
// where the run of ops recurs, so that N equal layers are one program run N times.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "csrc/base/ref.h"
#include "csrc/base/status.h"
#include "csrc/program/cache.h"
#include "csrc/program/explain.h"
#include "csrc/program/value.h"

namespace torch_tpu::program {

// One signature as recorded: made on a miss, shared by all calls of that signature, kept for the
// life of the process.
struct Template {
  std::vector<uint64_t> words;  // the signature's key
  ops::Call call;               // values numbered within `inputs`
  std::vector<Input> inputs;
  std::vector<int> live;                   // positions in call.outputs that give a value
  std::vector<const hlo::Shape*> outputs;  // of those
  std::vector<int64_t> bytes;              // of those

  // The program of this call alone.
  Program Alone() const;
};

// Sizes that bound a window; read from the environment once.
struct WindowLimits {
  int max_ops = 256;
  int min_repeat = 48;  // shorter runs are not worth a launch of their own
  int64_t max_bytes = int64_t{1} << 30;
};

class Window {
 public:
  static Window& Of(pjrt::Device* device);
  // Closes the device's window if there is an open one. `device` is a torch device index.
  static Status CloseIfOpen(int device, CloseReason reason);

  // Appends one call. `inputs` has one Ref per template input that is an argument (null for zeros);
  // `outputs` receives one pending value per template output. `continues` says that this thread
  // acts for the owner (an autograd worker); another thread closes the window first.
  Status Record(const Template* call, const Ref<Value>* inputs, bool continues,
                Ref<Value>* outputs);
  // Runs what was recorded. The status is also that of every pending value.
  Status Close(CloseReason reason);

  // Called with an output of each program that a window launched.
  static void SetLaunchHook(void (*hook)(const Ref<Value>&));
  // Windows closed by reason, since the last reset.
  static std::map<std::string, int64_t> Flushes();
  static void ResetFlushes();

 private:
  struct Node {
    const Template* call;
    uint32_t first_input, first_output;  // into operands_, values_
  };
  // A closed window's form: what varies between two windows of equal words is only the buffers.
  struct Plan {
    std::vector<uint64_t> words;
    Ref<CompiledProgram> program;
  };

  explicit Window(pjrt::Device* device) : device_(device) {}
  Status CloseLocked(CloseReason reason);
  bool CutBefore(const Template* next, CloseReason* reason);
  Status Launch(const std::vector<int>& live, const std::vector<int>& donated_to);
  StatusOr<Ref<CompiledProgram>> Compiled(const std::vector<int>& live,
                                          const std::vector<int>& donated_to);
  void ExplainClose(CloseReason reason, size_t live, const Outcome& outcome) const;
  Program Build(const std::vector<int>& live, const std::vector<int>& donated_to) const;
  Key ContentKey(const std::vector<int>& live, const std::vector<int>& donated_to) const;
  int External(const Ref<Value>& value);

  std::mutex mutex_;
  pjrt::Device* device_;
  uint64_t serial_ = 1;
  std::thread::id owner_;
  std::vector<Node> nodes_;
  // Per template input: >= 0 the value of an earlier node, -1 - k external k, kZerosOperand zeros.
  std::vector<int32_t> operands_;
  std::vector<Ref<Value>> externals_;
  std::vector<Ref<Value>> values_;  // outputs of all nodes; one reference each
  std::vector<std::string> lines_;  // of each node, while explaining
  std::vector<uint64_t> words_;     // templates and operands: the key so far
  int64_t bytes_ = 0;

  // Where equal runs of ops begin, by a rolling hash over the last ops.
  std::unordered_map<uint64_t, int> seen_;  // hash -> first node of this window after it
  std::vector<uint64_t> anchors_;           // hashes at which earlier windows were cut
  uint64_t recent_[16] = {};                // last templates, a ring
  uint64_t rolling_ = 0;
  uint64_t recorded_ = 0;

  std::unordered_map<uint64_t, std::vector<Plan>> plans_;
};

}  // namespace torch_tpu::program
