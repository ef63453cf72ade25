// SPDX-License-Identifier: Apache-2.0
// Special functions by Chebyshev series. The coefficients are our own fits: discrete cosine sums of
// mpmath values at 40 digits, cut at 1e-17 of the largest.
#include <cmath>
#include <numbers>
#include <span>

#include "csrc/ops/math.h"

namespace torch_tpu::ops {
namespace {

// exp(-x) I0(x) over x in [0, 8], in t = x / 4 - 1; and sqrt(x) exp(-x) I0(x) beyond, in
// t = 16 / x - 1. Likewise exp(-x) I1(x) / x and sqrt(x) exp(-x) I1(x).
constexpr double kI0Small[] = {
    3.38397637204738042e-1,   -3.04682672343198399e-1,  1.71620901522208775e-1,
    -9.49010970480476444e-2,  4.93052842396707085e-2,   -2.37374148058994688e-2,
    1.05464603945949983e-2,   -4.32430999505057594e-3,  1.6394756169413358e-3,
    -5.76375574538582366e-4,  1.88502885095841656e-4,   -5.7541950100821037e-5,
    1.64484480707288971e-5,   -4.41673835845875056e-6,  1.11738753912010372e-6,
    -2.67079385394061173e-7,  6.04699502254191895e-8,   -1.30002500998624804e-8,
    2.65982372468238665e-9,   -5.18979560163526291e-10, 9.67580903537323691e-11,
    -1.72682629144155571e-11, 2.95505266312963983e-12,  -4.85644678311192946e-13,
    7.67618549860493562e-14,  -1.16853328779934517e-14, 1.71539128555513303e-15,
    -2.43127984654795469e-16, 3.3307945188222381e-17,   -4.41534164647933938e-18,
    5.66917800692149616e-19};
constexpr double kI0Large[] = {
    4.02245205507054416e-1,   3.36911647825569409e-3,   6.88975834691682398e-5,
    2.89137052083475648e-6,   2.04891858946906374e-7,   2.26666899049817806e-8,
    3.39623202570838635e-9,   4.94060238822496959e-10,  1.18891471078464383e-11,
    -3.14991652796324136e-11, -1.32158118404477131e-11, -1.79417853150680612e-12,
    7.18012445138366623e-13,  3.8527783827421427e-13,   1.54008621752140983e-14,
    -4.15056934728722209e-14, -9.55484669882830765e-15, 3.81168066935262242e-15,
    1.77256013305652638e-15,  -3.42548561967721913e-16, -2.82762398051658348e-16,
    3.46122286769746109e-17,  4.46562142029676e-17,     -4.83050448594418207e-18,
    -7.23318048787475395e-18, 9.9214754121736986e-19,   1.19365089084598209e-18};
constexpr double kI1Small[] = {
    1.26293593221816827e-1,   -1.76416518357834055e-1,  1.02643658689847095e-1,
    -5.29459812080949914e-2,  2.47264490306265168e-2,   -1.05640848946261982e-2,
    4.15642294431288816e-3,   -1.51357245063125315e-3,  5.12285956168575773e-4,
    -1.61760815825896746e-4,  4.78156510755005423e-5,   -1.32731636560394358e-5,
    3.47025130813767848e-6,   -8.56872026469545474e-7,  2.00329475355213526e-7,
    -4.44505912879632808e-8,  9.38153738649577178e-9,   -1.88724975172282929e-9,
    3.62559028155211704e-10,  -6.66348972350202774e-11, 1.17361862988909016e-11,
    -1.98397439776494372e-12, 3.22379336594557471e-13,  -5.04218550472791169e-14,
    7.60068429473540693e-15,  -1.10559694773538631e-15, 1.55363195773620047e-16,
    -2.11142121435816608e-17, 2.77791411276104637e-18,  -3.54158177254213621e-19};
constexpr double kI1Large[] = {
    3.8928811750914006e-1,    -9.76109749136146841e-3,  -1.10588938762623716e-4,
    -3.88256480887769039e-6,  -2.51223623787020893e-7,  -2.63146884688951951e-8,
    -3.83538038596423702e-9,  -5.58974346219658381e-10, -1.89749581235054123e-11,
    3.25260358301548824e-11,  1.41258074366137813e-11,  2.03562854414708951e-12,
    -7.19855177624590851e-13, -4.08355111109219732e-13, -2.10154184277266431e-14,
    4.27244001671195135e-14,  1.04202769841288028e-14,  -3.8144030724370078e-15,
    -1.88035477551078245e-15, 3.30820231092092828e-16,  2.96262899764595014e-16,
    -3.20952592199342396e-17, -4.65030536848935833e-17, 4.41434832307170795e-18,
    7.51729631084210481e-18,  -9.31417886732688338e-19, -1.24219327519489096e-18};
// (1 + 2x) exp(x^2) erfc(x) over x >= 0, in t = (x - 3) / (x + 3).
constexpr double kErfcx[] = {
    1.17756257419656005,      5.35390453961567677e-3,   -9.37755034228420905e-2,
    5.43665255574432205e-2,   -1.89765967078452074e-2,  4.45342606146271157e-3,
    -6.33553171055314694e-4,  1.76617195231715919e-5,   1.28415328640566707e-5,
    -2.00722856590599144e-6,  -1.8075227904148371e-7,   7.54982834382509283e-8,
    1.88566852383860279e-9,   -2.699519049798364e-9,    -1.46007911993910494e-11,
    1.03616074459694897e-10,  1.47571597662347301e-12,  -4.27734006439691082e-12,
    -2.07922492859798998e-13, 1.81345020031769624e-13,  1.97342557454473883e-14,
    -7.28794373759267316e-15, -1.51698786902281157e-15, 2.35141122587814035e-16,
    1.00061116918216676e-16};

// Clenshaw's recurrence. Terms that vanish in f32 are left out for it.
Value Chebyshev(Value t, std::span<const double> terms) {
  size_t n = terms.size();
  if (t.dtype() != DType::kF64) {
    while (n > 1 && std::abs(terms[n - 1]) < 1e-9) --n;
  }
  Value twice = t + t, next = ZerosLike(t), after = ZerosLike(t);
  for (size_t i = n - 1; i > 0; --i) {
    Value current = twice * next - after + terms[i];
    after = next;
    next = current;
  }
  return t * next - after + terms[0];
}

Value BesselIe(Value x, std::span<const double> small, std::span<const double> large, bool odd) {
  Value size = Abs(x);
  Value near = Chebyshev(size / 4 - 1, small);
  if (odd) near = near * size;
  Value far = Chebyshev(16.0 / Max(size, Like(size, 8)) - 1, large) / Sqrt(size);
  Value y = Select(size <= 8, near, far);
  return odd ? Select(x < 0, -y, y) : y;
}

}  // namespace

Value BesselI0e(Value x) { return BesselIe(x, kI0Small, kI0Large, /*odd=*/false); }
Value BesselI1e(Value x) { return BesselIe(x, kI1Small, kI1Large, /*odd=*/true); }

Value Erfc(Value x) { return x.builder().Unary("chlo.erfc", x); }

Value NormalCdf(Value x) {
  Value erf = Erf(x * (std::numbers::sqrt2 / 2));
  erf = Select(Abs(x) > 9, CopySign(OnesLike(x), x), erf);
  return 0.5 * (1.0 + erf);
}

Value Erfcx(Value x) {
  Value size = Abs(x);
  Value far = Chebyshev(1.0 - 6.0 / (size + 3), kErfcx) / (1.0 + 2.0 * size);
  return Select(x < 0, 2.0 * Exp(x * x) - far, far);
}

Value ErfInv(Value x) { return x.builder().Unary("chlo.erf_inv", x); }

Value LogNdtr(Value x) {
  const double half_root = std::numbers::sqrt2 / 2;
  Value far = Log(Erfcx(x * -half_root) / 2) - x * x / 2;
  return Select(x < -1, far, Log1p(Erfc(x * half_root) / -2));
}

Value Ndtri(Value p) {
  // The middle by erf's inverse; the tails by Newton steps on log ndtr, which is concave.
  Value middle = ErfInv(2.0 * p - 1) * std::numbers::sqrt2;
  Value tail = Min(p, 1.0 - p), log_tail = Log(tail);
  Value z = -Sqrt(log_tail * -2);
  for (int i = 0; i < 5; ++i) {
    Value slope = std::sqrt(2 / std::numbers::pi) / Erfcx(z * -(std::numbers::sqrt2 / 2));
    z = z - (LogNdtr(z) - log_tail) / slope;
  }
  z = Select(Eq(tail, 0), Like(z, -INFINITY), z);
  Value outer = Select(p < 0.5, z, -z);
  return Select(Abs(p - 0.5) < 0.4, middle, Select(tail < 0, Like(p, NAN), outer));
}

Value Lgamma(Value x) {
  Value y = x.builder().Unary("chlo.lgamma", x);
  return Select(Eq(Abs(x), INFINITY), Like(x, INFINITY), y);
}

Value Digamma(Value x) {
  Value y = x.builder().Unary("chlo.digamma", x);
  return Select(Eq(x, 0), CopySign(Like(x, INFINITY), -x), y);
}

Value Zeta(Value x, Value q) {
  // Adds terms until they start at 9 or more, then Euler-Maclaurin. Negative q works for whole x.
  Value minus_x = -x, at_pole = (q <= 0) & Eq(q, Floor(q));
  q = Select(at_pole, Like(q, 10), q);  // would count up forever
  Value first = Pow(q, minus_x);
  Dims all(q.rank());
  for (int i = 0; i < q.rank(); ++i) all[i] = i;
  Value count = q.builder().ConstantInt(DType::kS32, 0);
  auto unfinished = [](const Values& v) {
    return (v[1] <= 9) | BroadcastTo(v[0] < 9, v[1].dims());
  };
  Values sums = q.builder().While(
      {count, q, first, first},
      [&](const Values& v) { return Values{AnyReduceOr(unfinished(v), all)}; },
      [&](const Values& v) {
        Value go_on = unfinished(v);
        Value start = Select(go_on, v[1] + 1, v[1]);
        Value term = Select(go_on, Pow(start, minus_x), v[2]);
        return Values{v[0] + 1, start, term, v[3] + Select(go_on, term, ZerosLike(term))};
      });
  Value start = sums[1], term = sums[2];
  Value sum = sums[3] + term * start / (x - 1) - term / 2;
  // sum over k of B(2k) / (2k)! x (x + 1) ... (x + 2k - 2) start^(1 - 2k - x)
  Value factor = x * term / start;
  for (int k = 1; k <= 12; ++k) {
    const double bernoulli = 2 * std::riemann_zeta(2.0 * k) / std::pow(2 * std::numbers::pi, 2 * k);
    sum = sum + factor * (k % 2 ? bernoulli : -bernoulli);
    factor = factor * (x + (2 * k - 1)) / start * (x + 2 * k) / start;
  }
  Value nan = Like(q, NAN), infinity = Like(q, INFINITY);
  sum = Select((q <= 0) & Ne(x, Floor(x)), nan, Select(at_pole, infinity, sum));
  return Select(Eq(x, 1), infinity, Select(x < 1, nan, sum));
}

}  // namespace torch_tpu::ops
