// SPDX-License-Identifier: Apache-2.0
// Special functions. Those that have no block here run on the CPU fallback.
#include <cmath>
#include <numbers>

#include "csrc/ops/math.h"
#include "csrc/ops/op.h"

namespace torch_tpu::ops {

// ---- error functions ---------------------------------------------------------------------------
OP("aten::erf") { return Erf(x.arg("self")); }
OP("aten::erfc") { return Erfc(x.arg("self")); }
OP("aten::erfinv") { return ErfInv(x.arg("self")); }
OP("aten::special_erfcx") { return Erfcx(x.arg("self")); }
OP("aten::special_log_ndtr", {.tolerance = Tolerance::kApproximate}) {
  return LogNdtr(x.arg("self"));
}
OP("aten::special_ndtri", {.tolerance = Tolerance::kApproximate}) { return Ndtri(x.arg("self")); }
OP("aten::special_entr") {
  Value self = x.arg("self");
  Value positive = -self * Log(self);
  Value outside = Select(Eq(self, 0), ZerosLike(self), Like(self, -INFINITY));
  return Select(IsNan(self) | (self > 0), positive, outside);
}

// ---- gamma functions ---------------------------------------------------------------------------
OP("aten::lgamma", {.tolerance = Tolerance::kApproximate}) { return Lgamma(x.arg("self")); }
OP("aten::digamma", {.tolerance = Tolerance::kApproximate}) { return Digamma(x.arg("self")); }
OP("aten::polygamma", {.tolerance = Tolerance::kApproximate}) {
  const int64_t n = x.integer("n");
  Value self = x.arg("self");
  if (n == 0) return Digamma(self);
  if (n == 1) {
    // Reflected into x >= 0.5, where the zeta series converges.
    Value reflect = self < 0.5;
    Value series = Zeta(Like(self, 2), Select(reflect, 1.0 - self, self));
    Value ratio = std::numbers::pi / Sin(self * std::numbers::pi);
    return Select(reflect, ratio * ratio - series, series);
  }
  const double factor = (n % 2 ? 1 : -1) * std::tgamma(static_cast<double>(n) + 1);
  return Zeta(Like(self, static_cast<double>(n + 1)), self) * factor;
}
OPS(({"aten::special_zeta", "aten::special_zeta.self_scalar", "aten::special_zeta.other_scalar"}),
    {.tolerance = Tolerance::kApproximate}) {
  return Zeta(x.arg("self"), x.arg("other"));
}

// ---- Bessel functions --------------------------------------------------------------------------
OPS(({"aten::i0", "aten::special_modified_bessel_i0"})) {
  Value self = x.arg("self");
  return Exp(Abs(self)) * BesselI0e(self);
}
OP("aten::special_i0e") { return BesselI0e(x.arg("self")); }
OPS(({"aten::special_i1", "aten::special_modified_bessel_i1"})) {
  Value self = x.arg("self");
  return Exp(Abs(self)) * BesselI1e(self);
}
OP("aten::special_i1e") { return BesselI1e(x.arg("self")); }
OP("aten::special_spherical_bessel_j0") {
  Value self = x.arg("x");
  Value square = self * self;
  Value series = 1.0 - square / 6 * (1.0 - square / 20 * (1.0 - square / 42 * (1.0 - square / 72)));
  Value ratio = Select(IsInfinite(self), ZerosLike(self), Sin(self) / self);
  return Select(Abs(self) < 0.5, series, ratio);
}

}  // namespace torch_tpu::ops
