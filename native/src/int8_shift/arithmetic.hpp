// Implementation of the functions for the instruction set that the including file is compiled for.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "int8_shift/model.hpp"
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace dragoman::int8_shift {
namespace {

using Floats = std::vector<float>;
constexpr std::size_t panel = 16, interleave = 4;
constexpr int limit = 127;

/// Round inputs with a fixed multiplier, to 0 to 254.
void quantize(const float* x, std::size_t count, float multiplier, std::uint8_t* q) {
    for (std::size_t i = 0; i < count; i++) {
        float value = std::min(127.0f, std::max(-127.0f, x[i] * multiplier));
        q[i] = static_cast<std::uint8_t>(static_cast<int>(std::nearbyintf(value)) + limit);
    }
}

#ifdef __AVX2__
template <int rows>
void multiply_tile(const Product& w, const std::int8_t* packed, const std::uint8_t* q, std::size_t column, float* y) {
    __m256i sums[rows][2];
    for (auto& row : sums) row[0] = row[1] = _mm256_setzero_si256();
    const __m256i ones = _mm256_set1_epi16(1);
    for (std::size_t i = 0; i < w.inputs; i += interleave, packed += panel * interleave) {
        __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed));
        __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed + 32));
        for (int r = 0; r < rows; r++) {
            std::int32_t four;
            std::memcpy(&four, q + static_cast<std::size_t>(r) * w.inputs + i, sizeof(four));
            __m256i x = _mm256_set1_epi32(four);
            sums[r][0] = _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(_mm256_maddubs_epi16(x, first), ones));
            sums[r][1] = _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(_mm256_maddubs_epi16(x, second), ones));
        }
    }
    __m256 scale = _mm256_set1_ps(w.scale);
    for (int r = 0; r < rows; r++) {
        for (std::size_t half = 0; half < 2; half++) {
            __m256 bias = _mm256_loadu_ps(w.bias.data() + column + 8 * half);
            __m256 product = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sums[r][half]));
            _mm256_storeu_ps(y + static_cast<std::size_t>(r) * w.outputs + column + 8 * half,
                             _mm256_add_ps(product, bias));
        }
    }
}
#else
template <int rows>
void multiply_tile(const Product& w, const std::int8_t* packed, const std::uint8_t* q, std::size_t column, float* y) {
    for (std::size_t r = 0; r < rows; r++) {
        for (std::size_t o = 0; o < panel; o++) {
            std::int32_t sum = 0;
            for (std::size_t i = 0; i < w.inputs; i += 2) {
                const std::int8_t* pair = packed + i / interleave * interleave * panel + o * interleave + i % interleave;
                const std::uint8_t* x = q + r * w.inputs + i;
                sum += std::min(32767, std::max(-32768, x[0] * pair[0] + x[1] * pair[1]));
            }
            y[r * w.outputs + column + o] = w.scale * static_cast<float>(sum) + w.bias[column + o];
        }
    }
}
#endif

/// Multiply rows of inputs by a matrix.
void multiply(const Product& w, const float* x, std::size_t rows, float* y) {
    static thread_local std::vector<std::uint8_t> q;
    q.resize(rows * w.inputs);
    quantize(x, rows * w.inputs, w.activation, q.data());
    for (std::size_t column = 0; column < w.outputs; column += panel) {
        const std::int8_t* packed = w.packed.data() + column * w.inputs;
        std::size_t r = 0;
        for (; r + 4 <= rows; r += 4) multiply_tile<4>(w, packed, &q[r * w.inputs], column, y + r * w.outputs);
        for (; r < rows; r++) multiply_tile<1>(w, packed, &q[r * w.inputs], column, y + r * w.outputs);
    }
}

/// Normalize the sum of two rows in place of the first; four rows at a time hide the latency of sums.
void add_and_normalize(float* x, const float* y, std::size_t rows, const Norm& norm) {
    std::size_t size = norm.scale.size();
    float count = static_cast<float>(size);
    for (std::size_t i = 0; i < rows * size; i++) x[i] = y[i] + x[i];
    for (std::size_t first = 0; first < rows; first += 4) {
        std::size_t some = std::min<std::size_t>(4, rows - first);
        float sums[4] = {}, squares[4] = {};
        float* block = x + first * size;
        for (std::size_t i = 0; i < size; i++) {
            for (std::size_t r = 0; r < some; r++) sums[r] += block[r * size + i];
        }
        for (std::size_t r = 0; r < some; r++) {
            float mean = sums[r] / count;
            for (std::size_t i = 0; i < size; i++) block[r * size + i] -= mean;
        }
        for (std::size_t i = 0; i < size; i++) {
            for (std::size_t r = 0; r < some; r++) squares[r] += block[r * size + i] * block[r * size + i];
        }
        for (std::size_t r = 0; r < some; r++) {
            float deviation = std::sqrt(squares[r] / count + 1e-6f);
            float* row = block + r * size;
            for (std::size_t i = 0; i < size; i++) row[i] = norm.scale[i] * (row[i] / deviation) + norm.bias[i];
        }
    }
}

float exact_exp(float x) { return static_cast<float>(std::exp(static_cast<double>(x))); }

/// Attend with one query to `length` keys (size x length) and values (length x size). `first_head`, which may be null,
/// takes the weights of the first head.
void attend(const Network& network, const float* query, const float* keys, const float* values, std::size_t length,
            float* joined, float* first_head) {
    static thread_local Floats weights;
    weights.resize(length);
    std::size_t width = network.size / network.heads;
    float unit = 1.0f / std::sqrt(static_cast<float>(width));
    for (std::size_t start = 0; start < network.size; start += width) {
        std::fill(weights.begin(), weights.end(), 0.0f);
        float* w = weights.data();
        for (std::size_t i = start; i < start + width; i++) {
            for (std::size_t k = 0; k < length; k++) w[k] += query[i] * keys[i * length + k];
        }
        for (std::size_t k = 0; k < length; k++) w[k] *= unit;
        float highest = *std::max_element(w, w + length), sum = 0.0f;
        for (std::size_t k = 0; k < length; k++) sum += w[k] = exact_exp(w[k] - highest);
        for (std::size_t k = 0; k < length; k++) w[k] /= sum;
        if (start == 0 && first_head != nullptr) std::copy_n(w, length, first_head);
        std::fill(joined + start, joined + start + width, 0.0f);
        for (std::size_t k = 0; k < length; k++) {
            for (std::size_t i = start; i < start + width; i++) joined[i] += w[k] * values[k * network.size + i];
        }
    }
}

void feed_forward(const FeedForward& layer, float* x, std::size_t rows) {
    Floats inner(rows * layer.inner.outputs), outer(rows * layer.outer.outputs);
    multiply(layer.inner, x, rows, inner.data());
    for (float& value : inner) value = std::max(value, 0.0f);
    multiply(layer.outer, inner.data(), rows, outer.data());
    add_and_normalize(x, outer.data(), rows, layer.norm);
}

/// Write keys (size x length), then values (length x size).
void write_memory(const Attention& layer, const float* x, std::size_t length, float* memory) {
    std::size_t size = layer.key.outputs;
    Floats keys(length * size);
    multiply(layer.key, x, length, keys.data());
    for (std::size_t k = 0; k < length; k++) {
        for (std::size_t i = 0; i < size; i++) memory[i * length + k] = keys[k * size + i];
    }
    multiply(layer.value, x, length, memory + size * length);
}

void add_embedding(const Network& network, std::int32_t token, std::size_t position, float* x) {
    std::size_t size = network.size;
    const float* offset = &network.positions[position * size];
    for (std::size_t i = 0; i < size; i++) {
        float value = 0.0f;
        if (token >= 0) {
            auto integer = network.vocabulary.values[static_cast<std::size_t>(token) * size + i];
            value = network.vocabulary.factor * (static_cast<float>(integer) * network.vocabulary.unit);
        }
        x[i] = value + offset[i];
    }
}

void encode(const Network& network, const std::int32_t* tokens, std::size_t length, float* memory) {
    std::size_t size = network.size;
    Floats x(length * size), queries(x), joined(x), output(x), own(2 * length * size);
    for (std::size_t row = 0; row < length; row++) add_embedding(network, tokens[row], row, &x[row * size]);
    for (const EncoderLayer& layer : network.encoder) {
        write_memory(layer.attention, x.data(), length, own.data());
        multiply(layer.attention.query, x.data(), length, queries.data());
        for (std::size_t row = 0; row < length; row++) {
            attend(network, &queries[row * size], own.data(), &own[length * size], length, &joined[row * size],
                   nullptr);
        }
        multiply(layer.attention.output, joined.data(), length, output.data());
        add_and_normalize(x.data(), output.data(), length, layer.attention.norm);
        feed_forward(layer.feed_forward, x.data(), length);
    }
    for (const DecoderLayer& layer : network.decoder) {
        write_memory(layer.attention, x.data(), length, memory);
        memory += 2 * length * size;
    }
}

void update_cells(const DecoderLayer& layer, const Step& step, std::size_t number, std::size_t layers, float* x) {
    std::size_t size = layer.input.outputs, rows = step.tokens.size();
    Floats fresh(rows * size), gates(rows * size);
    multiply(layer.input, x, rows, fresh.data());
    multiply(layer.forget_gate, x, rows, gates.data());
    for (std::size_t row = 0; row < rows; row++) {
        std::size_t place = (row * layers + number) * size;
        for (std::size_t i = 0; i < size; i++) {
            float forget = 1.0f / (1.0f + exact_exp(-gates[row * size + i]));
            float cell = forget * step.before[place + i] + (1.0f - forget) * fresh[row * size + i];
            step.after[place + i] = cell;
            fresh[row * size + i] = std::max(cell, 0.0f);
        }
    }
    add_and_normalize(x, fresh.data(), rows, layer.norm);
}

void decode(const Network& network, const Step& step, float* x) {
    std::size_t size = network.size, rows = step.tokens.size();
    Floats queries(rows * size), joined(queries), output(queries);
    for (std::size_t row = 0; row < rows; row++) {
        add_embedding(network, step.tokens[row], static_cast<std::size_t>(step.positions[row]), x + row * size);
    }
    for (std::size_t number = 0; number < network.decoder.size(); number++) {
        const DecoderLayer& layer = network.decoder[number];
        update_cells(layer, step, number, network.decoder.size(), x);
        multiply(layer.attention.query, x, rows, queries.data());
        bool is_recorded = number + 1 == network.decoder.size() && !step.weights.empty();
        for (std::size_t row = 0; row < rows; row++) {
            std::size_t part = step.lengths[row] * size;
            const float* keys = step.memories[row] + 2 * number * part;
            attend(network, &queries[row * size], keys, keys + part, step.lengths[row], &joined[row * size],
                   is_recorded ? step.weights[row] : nullptr);
        }
        multiply(layer.attention.output, joined.data(), rows, output.data());
        add_and_normalize(x, output.data(), rows, layer.attention.norm);
        feed_forward(layer.feed_forward, x, rows);
    }
}

void logits(const Network& network, const float* hidden, const std::int32_t* candidates, std::size_t count,
            float* result) {
    const Vocabulary& vocabulary = network.vocabulary;
    static thread_local std::vector<std::uint8_t> q;
    static thread_local std::vector<std::int16_t> wide;
    q.resize(network.size);
    quantize(hidden, network.size, vocabulary.activation, q.data());
    wide.assign(q.begin(), q.end());
    for (std::size_t c = 0; c < count; c++) {
        auto token = static_cast<std::size_t>(candidates[c]);
        const std::int8_t* row = &vocabulary.values[token * network.size];
        std::int32_t sum = 0;
        for (std::size_t i = 0; i < network.size; i++) sum += static_cast<std::int32_t>(wide[i]) * row[i];
        result[c] = vocabulary.scale * static_cast<float>(sum) + vocabulary.bias[token];
    }
}

}  // namespace
}  // namespace dragoman::int8_shift
