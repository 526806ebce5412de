#include "int8_shift/arithmetic.hpp"

namespace dragoman::int8_shift {

Functions avx2_functions() { return {encode, decode, logits}; }

}  // namespace dragoman::int8_shift
