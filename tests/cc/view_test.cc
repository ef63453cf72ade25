// SPDX-License-Identifier: Apache-2.0
// Views against a plain loop over bytes, on the CPU plugins: named cases, then random ones.
#include "csrc/ops/view.h"

#include <complex>
#include <random>

#include "csrc/ops/strided.h"
#include "tests/cc/run_module.h"

namespace torch_tpu::ops {
namespace {

using testing::Array;

std::string Describe(const View& v) {
  return StrCat(v.base.ToString(), " as ", hlo::Name(v.dtype), " sizes ", hlo::ToString(v.sizes),
                " strides ", hlo::ToString(v.strides), " offset ", v.offset, v.conj ? " conj" : "",
                v.neg ? " neg" : "");
}

View Make(const Shape& base, const Dims& sizes, const Dims& strides, int64_t offset = 0) {
  return {.base = base, .dtype = base.dtype, .sizes = sizes, .strides = strides, .offset = offset};
}

Array Counting(const Shape& shape) {
  Array a{shape, std::string(shape.bytes(), '\0')};
  std::mt19937 random(7);
  for (size_t i = 0; i < a.bytes.size(); ++i) a.bytes[i] = static_cast<char>(random());
  const size_t width = hlo::ByteSize(hlo::RealOf(shape.dtype));
  for (size_t i = 0; i < a.bytes.size(); i += width) {
    // No NaN: plugins may change its bits.
    if (hlo::IsFloat(hlo::RealOf(shape.dtype))) a.bytes[i + width - 1] = static_cast<char>(i % 60);
    if (shape.dtype == DType::kPred) a.bytes[i] &= 1;
  }
  return a;
}

// Byte position in the base of each element of the view, in order.
std::vector<int64_t> Positions(const View& v) {
  std::vector<int64_t> out;
  Dims index(v.sizes.size(), 0);
  int64_t n = 1;
  for (int64_t s : v.sizes) n *= s;
  for (int64_t k = 0; k < n; ++k) {
    int64_t at = v.offset;
    for (size_t i = 0; i < index.size(); ++i) at += index[i] * v.strides[i];
    out.push_back(at * hlo::ByteSize(v.dtype));
    for (size_t i = index.size(); i-- > 0 && ++index[i] == v.sizes[i];) index[i] = 0;
  }
  return out;
}

// The conj and neg bits, on bytes.
void ResolveBits(const View& v, std::string& bytes) {
  const size_t width = hlo::ByteSize(hlo::RealOf(v.dtype));
  const bool complex = hlo::IsComplex(v.dtype);
  for (size_t part = 0; part * width < bytes.size(); ++part) {
    const bool flip = v.neg != (v.conj && complex && part % 2 == 1);
    if (flip) bytes[(part + 1) * width - 1] ^= static_cast<char>(0x80);
  }
}

std::string ExpectedRead(const Array& base, const View& v) {
  const size_t width = hlo::ByteSize(v.dtype);
  std::string padded = base.bytes, out;
  for (int64_t at : Positions(v)) {
    if (padded.size() < at + width) padded.resize(at + width, '\0');
    out += padded.substr(at, width);
  }
  ResolveBits(v, out);
  return out;
}

std::string ExpectedWrite(const Array& base, const Array& update, const View& v) {
  const size_t width = hlo::ByteSize(v.dtype);
  std::string out = base.bytes, in = update.bytes;
  ResolveBits(v, in);
  size_t k = 0;
  for (int64_t at : Positions(v)) out.replace(at, width, in, width * k++, width);
  return out;
}

// Reads (and writes, when `write`) all views of one base in one program.
void Check(const Shape& shape, const std::vector<View>& views, bool write = true) {
  std::vector<Array> inputs = {Counting(shape)};
  if (write) {
    for (const View& v : views) inputs.push_back(Counting({v.dtype, v.sizes}));
  }
  auto body = [&](const Values& p) {
    Values out;
    for (const View& v : views) out.push_back(ReadView(p[0], v));
    for (size_t i = 0; write && i < views.size(); ++i) {
      out.push_back(WriteView(p[0], p[i + 1], views[i]));
    }
    return out;
  };
  testing::OnEachPlugin(inputs, body, [&](const std::vector<Array>& got) {
    for (size_t i = 0; i < views.size(); ++i) {
      EXPECT_TRUE(got[i].bytes == ExpectedRead(inputs[0], views[i]))
          << "read of " << Describe(views[i]);
      if (!write) continue;
      EXPECT_TRUE(got[views.size() + i].bytes == ExpectedWrite(inputs[0], inputs[i + 1], views[i]))
          << "write to " << Describe(views[i]);
    }
  });
}

const Shape k46{DType::kF32, {4, 6}};

TEST(View, Named) {
  Check(k46, {
                 Make(k46, {4, 6}, {6, 1}),        // itself
                 Make(k46, {24}, {1}),             // flat
                 Make(k46, {6, 4}, {1, 6}),        // transposed
                 Make(k46, {4, 3}, {6, 1}, 2),     // [:, 2:5]
                 Make(k46, {2, 6}, {12, 1}, 6),    // [1::2]
                 Make(k46, {4, 3}, {6, 2}, 1),     // [:, 1::2]
                 Make(k46, {6}, {1}, 12),          // [2]
                 Make(k46, {4}, {6}, 3),           // [:, 3]
                 Make(k46, {}, {}, 9),             // [1, 3]
                 Make(k46, {4}, {7}),              // diagonal
                 Make(k46, {3}, {7}, 1),           // diagonal(1)
                 Make(k46, {2}, {13}, 6),          // [1::2, ::1] diagonal
                 Make(k46, {3, 2}, {7, 3}),        // a diagonal, and a step along its own dim
                 Make(k46, {20}, {1}, 3),          // flat[3:23]
                 Make(k46, {12}, {2}),             // flat[::2]
                 Make(k46, {4, 2, 3}, {6, 3, 1}),  // unflatten
                 Make(k46, {2, 2, 3, 2}, {12, 6, 2, 1}),
                 Make(k46, {1, 4, 1, 6, 1}, {99, 6, 7, 1, 3}),
                 Make(k46, {3, 2, 2}, {2, 12, 1}, 6),
                 Make(k46, {0, 6}, {6, 1}),
                 Make(k46, {3, 3}, {7, 2}),     // interleaved rows of a flat window
                 Make(k46, {2, 3}, {7, 1}, 2),  // blocks that divide nothing
             });
}

TEST(View, Overlapping) {
  Check(k46,
        {
            Make(k46, {3, 4, 6}, {0, 6, 1}),  // expand
            Make(k46, {4, 5, 6}, {6, 0, 1}),
            Make(k46, {5}, {0}, 7),
            Make(k46, {4, 4, 3}, {6, 1, 1}),  // unfold(1, 3, 1)
            Make(k46, {20, 5}, {1, 1}),
        },
        /*write=*/false);
  const Shape wide{DType::kF32, {300}};
  Check(wide, {Make(wide, {100, 150}, {1, 1}, 20)}, /*write=*/false);  // too many slices: gather
}

TEST(View, InterleavedWritesScatter) {
  Check(k46, {Make(k46, {2, 2}, {3, 2}), Make(k46, {3, 4}, {4, 5}, 0)});
}

TEST(View, BeyondTheValue) {
  Check(k46, {Make(k46, {10}, {1}, 20), Make(k46, {6, 6}, {6, 1}), Make(k46, {3}, {1}, 100)},
        /*write=*/false);
  hlo::Builder b;
  const Value base = b.Parameter(k46), update = b.Parameter({DType::kF32, {10}});
  try {
    WriteView(base, update, Make(k46, {10}, {1}, 20));
    FAIL() << "expected an error";
  } catch (const hlo::Error& e) {
    EXPECT_NE(std::string(e.what()).find("within 24 elements, got one that ends at 30"),
              std::string::npos)
        << e.what();
  }
}

TEST(View, BroadcastDestinationThrows) {
  hlo::Builder b;
  const Value base = b.Parameter(k46), update = b.Parameter({DType::kF32, {5}});
  EXPECT_THROW(WriteView(base, update, Make(k46, {5}, {0})), hlo::Error);
  EXPECT_THROW(WriteView(base, update, Make(k46, {4}, {6})), hlo::Error);
  EXPECT_THROW(ReadView(base, Make(k46, {4}, {-6}, 20)), hlo::Error);
}

TEST(View, OtherTypes) {
  auto as = [](const Shape& base, DType dtype, const Dims& sizes, const Dims& strides,
               int64_t offset = 0) {
    View v = Make(base, sizes, strides, offset);
    v.dtype = dtype;
    return v;
  };
  const Shape c{DType::kC64, {3, 4}}, f{DType::kF32, {3, 4, 2}}, u8{DType::kU8, {6, 16}},
      flag{DType::kPred, {3, 4}}, z{DType::kC128, {3, 4}}, half{DType::kBF16, {5, 8}};
  Check(c, {
               as(c, DType::kC64, {4, 3}, {1, 4}),
               as(c, DType::kF32, {3, 4, 2}, {8, 2, 1}),  // view_as_real
               as(c, DType::kF32, {3, 4}, {8, 2}),        // .real
               as(c, DType::kF32, {4, 3}, {2, 8}, 1),     // .imag.t()
               as(c, DType::kF32, {2, 4, 3}, {1, 2, 8}),
               as(c, DType::kF32, {5}, {3}, 1),
               as(c, DType::kS64, {12}, {1}),
               as(c, DType::kF64, {3, 2}, {4, 2}),
               as(c, DType::kU8, {3, 8}, {32, 1}, 8),
           });
  Check(f, {
               as(f, DType::kC64, {3, 4}, {4, 1}),  // view_as_complex
               as(f, DType::kC64, {4, 2}, {1, 4}, 1),
               as(f, DType::kS32, {3, 4, 2}, {8, 2, 1}),
               as(f, DType::kBF16, {3, 16}, {16, 1}),
               as(f, DType::kBF16, {3, 5}, {16, 2}, 1),
               as(f, DType::kU8, {96}, {1}),
               as(f, DType::kU8, {7}, {3}, 5),
               as(f, DType::kF64, {3, 4}, {4, 1}),
           });
  Check(u8, {
                as(u8, DType::kF32, {24}, {1}),
                as(u8, DType::kF32, {5}, {1}, 3),
                as(u8, DType::kBF16, {2, 8}, {8, 1}, 16),
                as(u8, DType::kS8, {16, 6}, {1, 16}),
                as(u8, DType::kC64, {6}, {2}),
            });
  const View bytes_of_flags = as(flag, DType::kU8, {3, 4}, {4, 1});
  Check(flag, {bytes_of_flags}, /*write=*/false);  // a write keeps only whether a byte is zero
  Check(flag, {as(flag, DType::kPred, {4, 2}, {1, 4}), as(flag, DType::kPred, {3, 2}, {4, 2}, 1)});
  Check(z, {as(z, DType::kF64, {3, 4, 2}, {8, 2, 1}), as(z, DType::kF64, {12}, {2}, 1)});
  Check(half, {as(half, DType::kF32, {5, 2}, {4, 1}), as(half, DType::kS16, {8, 5}, {1, 8})});
}

TEST(View, ConjAndNegBits) {
  const Shape c{DType::kC64, {3, 4}};
  std::vector<View> views(4, Make(c, {4, 2}, {1, 4}));
  views[1].conj = views[2].neg = views[3].conj = views[3].neg = true;
  View imag = Make(c, {3, 4}, {8, 2}, 1);
  imag.dtype = DType::kF32;
  imag.neg = true;
  views.push_back(imag);
  Check(c, views);
}

// Plans keep a large value's own dims: nothing is reshaped before it is sliced.
TEST(View, SlicesBeforeItReshapes) {
  const auto plan = PlanSteps({1000, 512, 512}, {{512, 512}, {1, 512}, 7 * 512 * 512});
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->size(), 1u);
  EXPECT_EQ((*plan)[0].kind, Step::kSlice);
  // Half of each head: the heads are split off before the halves are cut.
  const auto half = PlanSteps({2048, 4096}, {{2048, 32, 64}, {4096, 128, 1}, 64});
  ASSERT_TRUE(half.has_value());
  ASSERT_EQ(half->size(), 2u);
  EXPECT_EQ((*half)[0].dims, (Dims{2048, 32, 128}));
  EXPECT_EQ((*half)[1].starts, (Dims{0, 0, 64}));
  // The diagonal of one matrix among many: it is cut out, and its dims stay apart.
  const auto diagonal = PlanSteps({1000, 512, 512}, {{512}, {513}, 7 * 512 * 512});
  ASSERT_TRUE(diagonal.has_value());
  ASSERT_EQ(diagonal->size(), 2u);
  EXPECT_EQ((*diagonal)[0].kind, Step::kSlice);
  EXPECT_EQ((*diagonal)[0].dims, (Dims{1, 512, 512}));
  EXPECT_EQ((*diagonal)[1].kind, Step::kDiagonal);
}

// A chain of view ops as torch makes them, starting from the whole base.
View RandomView(std::mt19937& random, const Shape& base) {
  auto upto = [&](int64_t n) { return static_cast<int64_t>(random() % (n + 1)); };
  Strided w{base.dims, base.dims};
  int64_t stride = 1;
  for (size_t i = base.dims.size(); i-- > 0;) {
    w.strides[i] = stride;
    stride *= base.dims[i];
  }
  for (int64_t ops = upto(5); ops-- > 0;) {
    const auto rank = static_cast<int64_t>(w.sizes.size());
    if (rank == 0) break;
    const int64_t d = upto(rank - 1), e = upto(rank - 1), n = w.sizes[d];
    switch (random() % 7) {
      case 0:
        std::swap(w.sizes[d], w.sizes[e]);
        std::swap(w.strides[d], w.strides[e]);
        break;
      case 1:
      case 2: {  // slice
        const int64_t from = upto(n - 1), step = 1 + upto(2);
        w.sizes[d] = 1 + upto(n - 1 - from) / step;
        w.offset += from * w.strides[d];
        w.strides[d] *= step;
        break;
      }
      case 3:  // select
        w.offset += upto(n - 1) * w.strides[d];
        w.sizes.erase(w.sizes.begin() + d);
        w.strides.erase(w.strides.begin() + d);
        break;
      case 4: {  // diagonal
        if (d == e) break;
        w.sizes[d] = std::min(n, w.sizes[e]);
        w.strides[d] += w.strides[e];
        w.sizes.erase(w.sizes.begin() + e);
        w.strides.erase(w.strides.begin() + e);
        break;
      }
      case 5:  // unflatten
        if (n % 2 != 0) break;
        w.sizes[d] = 2;
        w.strides.insert(w.strides.begin() + d, w.strides[d] * (n / 2));
        w.sizes.insert(w.sizes.begin() + d + 1, n / 2);
        break;
      case 6:  // unsqueeze
        w.sizes.insert(w.sizes.begin() + d, 1);
        w.strides.insert(w.strides.begin() + d, upto(9));
        break;
    }
  }
  return Make(base, w.sizes, w.strides, w.offset);
}

class RandomViews : public ::testing::TestWithParam<int> {};

TEST_P(RandomViews, ReadAndWriteAsALoopDoes) {
  std::mt19937 random(GetParam());
  const DType dtypes[] = {DType::kF32, DType::kS32, DType::kBF16, DType::kC64, DType::kPred};
  Shape base{dtypes[GetParam() % 5], {}};
  for (int i = 0; i < 1 + GetParam() % 4; ++i) {
    base.dims.push_back(1 + static_cast<int64_t>(random() % 8));
  }
  std::vector<View> views;
  for (int i = 0; i < 24; ++i) views.push_back(RandomView(random, base));
  Check(base, views);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomViews, ::testing::Range(0, 12));

// Any strides at all: mostly overlapping or interleaved.
TEST(View, ArbitraryStridesReadAsALoopDoes) {
  std::mt19937 random(3);
  const Shape base{DType::kS32, {4, 5, 6}};
  std::vector<View> views;
  while (views.size() < 60) {
    View v = Make(base, {}, {}, static_cast<int64_t>(random() % 30));
    for (size_t rank = random() % 4; v.sizes.size() < rank;) {
      v.sizes.push_back(1 + static_cast<int64_t>(random() % 5));
      v.strides.push_back(static_cast<int64_t>(random() % 20));
    }
    views.push_back(v);
  }
  Check(base, views, /*write=*/false);
}

}  // namespace
}  // namespace torch_tpu::ops
