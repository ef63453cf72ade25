// SPDX-License-Identifier: Apache-2.0
#include "csrc/pjrt/api.h"

#include <iterator>
#include <utility>

namespace torch_tpu::pjrt {
namespace {

constexpr std::pair<hlo::DType, PJRT_Buffer_Type> kTypes[] = {
    {hlo::DType::kPred, PJRT_Buffer_Type_PRED},
    {hlo::DType::kU8, PJRT_Buffer_Type_U8},
    {hlo::DType::kS8, PJRT_Buffer_Type_S8},
    {hlo::DType::kS16, PJRT_Buffer_Type_S16},
    {hlo::DType::kS32, PJRT_Buffer_Type_S32},
    {hlo::DType::kS64, PJRT_Buffer_Type_S64},
    {hlo::DType::kU16, PJRT_Buffer_Type_U16},
    {hlo::DType::kU32, PJRT_Buffer_Type_U32},
    {hlo::DType::kU64, PJRT_Buffer_Type_U64},
    {hlo::DType::kF16, PJRT_Buffer_Type_F16},
    {hlo::DType::kBF16, PJRT_Buffer_Type_BF16},
    {hlo::DType::kF32, PJRT_Buffer_Type_F32},
    {hlo::DType::kF64, PJRT_Buffer_Type_F64},
    {hlo::DType::kC64, PJRT_Buffer_Type_C64},
    {hlo::DType::kC128, PJRT_Buffer_Type_C128},
    {hlo::DType::kF8E4M3FN, PJRT_Buffer_Type_F8E4M3FN},
    {hlo::DType::kF8E5M2, PJRT_Buffer_Type_F8E5M2},
};

std::string ValueText(const PJRT_NamedValue& value) {
  switch (value.type) {
    case PJRT_NamedValue_kString: return std::string(value.string_value, value.value_size);
    case PJRT_NamedValue_kInt64: return std::to_string(value.int64_value);
    case PJRT_NamedValue_kFloat: return StrCat(value.float_value);
    case PJRT_NamedValue_kBool: return value.bool_value ? "true" : "false";
    case PJRT_NamedValue_kInt64List: {
      std::string text;
      for (size_t i = 0; i < value.value_size; ++i) {
        text += (i ? "," : "") + std::to_string(value.int64_array_value[i]);
      }
      return text;
    }
  }
  return "";
}

}  // namespace

Status MissingFunction(const Plugin& plugin, const char* function) {
  return Unimplemented(StrCat("[pjrt] ", plugin.path(), " (PJRT API ", plugin.api_major(), ".",
                              plugin.api_minor(), ") has no ", function,
                              ". Try: a newer version of the plugin."));
}

PJRT_Buffer_Type ToBufferType(hlo::DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  return PJRT_Buffer_Type_INVALID;
}

hlo::DType FromBufferType(PJRT_Buffer_Type type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  return hlo::DType::kInvalid;
}

std::vector<Attribute> ToAttributes(const PJRT_NamedValue* values, size_t count) {
  std::vector<Attribute> attributes;
  for (size_t i = 0; i < count; ++i) {
    attributes.push_back({std::string(values[i].name, values[i].name_size), ValueText(values[i])});
  }
  return attributes;
}

}  // namespace torch_tpu::pjrt
