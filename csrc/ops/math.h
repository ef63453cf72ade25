// SPDX-License-Identifier: Apache-2.0
// Arithmetic with torch's meaning where StableHLO's differs, shared by the pointwise families and
// their foreach twins. Operands have one dtype; shapes agree or one side has rank 0.
#pragma once

#include "csrc/hlo/builder.h"
#include "csrc/ops/op.h"

namespace torch_tpu::ops {

// bool: or, and.
Value Plus(Value a, Value b);
Value Times(Value a, Value b);
// NaN wins; bool: or, and.
Value Maximum(Value a, Value b);
Value Minimum(Value a, Value b);
Value Trunc(Value x);    // integers: x
Value SignOf(Value x);   // -1, 0, 1; NaN gives 0 as torch.sign does
Value SignBit(Value x);  // i1; tells -0.0 from 0.0
Value CopySign(Value x, Value sign);
Value IsInfinite(Value x);            // i1; complex: either part
Value Remainder(Value a, Value b);    // sign of the divisor, as Python
Value FloorDivide(Value a, Value b);  // as torch's: exact for floats, rounds down for integers
Value Power(Value a, Value b);
// x to a constant, by multiplication and roots where torch does so.
Value PowerOf(Value x, double exponent);
Value Lerp(Value start, Value end, Value weight);
// max(lo, min(x, hi)) with NaN kept; an absent bound is open. lo > hi gives hi.
Value ClampTo(Value x, Value lo, Value hi);
Value Conj(Value x);  // reals: x
Value Exp2(Value x);
Value Log2(Value x);
Value Log10(Value x);
// log(1 + exp(x)) without overflow.
Value Log1pExp(Value x);

// Special functions of float operands.
Value Erfc(Value x);
Value NormalCdf(Value x);  // 0 and 1 exactly far out, where XLA's erf stops short of 1
Value Erfcx(Value x);
Value ErfInv(Value x);
Value LogNdtr(Value x);
Value Ndtri(Value p);
Value Lgamma(Value x);
Value Digamma(Value x);
Value Zeta(Value x, Value q);
Value BesselI0e(Value x);
Value BesselI1e(Value x);

}  // namespace torch_tpu::ops
