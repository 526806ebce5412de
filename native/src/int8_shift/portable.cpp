#include "int8_shift/arithmetic.hpp"

namespace dragoman::int8_shift {

Product::Product(const std::int8_t* values, std::size_t inputs, std::size_t outputs, float activation, float scale,
                 const float* bias)
    : inputs(inputs),
      outputs(outputs),
      activation(activation),
      scale(scale),
      bias(bias, bias + outputs),
      packed(inputs * outputs) {
    for (std::size_t i = 0; i < inputs; i++) {
        for (std::size_t o = 0; o < outputs; o++) {
            std::size_t place = o / panel * panel * inputs + i / interleave * interleave * panel +
                                o % panel * interleave + i % interleave;
            packed[place] = values[i * outputs + o];
        }
    }
}

Functions select_functions([[maybe_unused]] const std::string& instruction_set) {
#ifdef DRAGOMAN_X86
    if (instruction_set != "portable") return avx2_functions();
#endif
    return {encode, decode, logits};
}

}  // namespace dragoman::int8_shift
