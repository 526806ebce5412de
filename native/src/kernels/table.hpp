// The functions of this instruction set, together; included last, after lanes and arithmetics.
#pragma once

#include "learning_attention.hpp"
#include "looks.hpp"
#include "operands.hpp"
#include "products.hpp"
#include "vocabulary.hpp"

namespace dragoman {
namespace {

template <class A>
constexpr Arithmetic arithmetic(Prepare prepare) {
    return {product<A>, prepare, sizeof(typename A::Number), A::interleave};
}

template <class Int8, class Bfloat>
constexpr Kernels table(const char* name) {
    return {name,
            arithmetic<Int8>(prepare_int8),
            arithmetic<Bfloat>(prepare_bfloat16),
            arithmetic<Float32>(prepare_float32),
            Int8::offset_stays,
            layer_norm,
            rms_norm,
            add,
            activate,
            looks<float>(),
            looks<Bfloat16>(),
            summarise,
            group_above,
            enter,
            normaliser,
            learning()};
}

}  // namespace
}  // namespace dragoman
