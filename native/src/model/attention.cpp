#include "model/attention.hpp"

#include <algorithm>

namespace dragoman {

namespace {

/// Positions whose keys and values are prefetched: about as many as the L1 cache holds.
constexpr std::size_t max_prefetched_positions = 64;
/// Queries between two checks for an interruption: a multiple of the tiles of the kernels.
constexpr std::size_t queries_per_check = 4 * query_tile;

/// Call `work(i)` for every `count`-th item. Interleaving distributes the heads of a long sentence over the threads.
template <class Work>
void for_interleaved_items(const ThreadPool::Worker& worker, std::size_t items, const Work& work) {
    for (std::size_t i = static_cast<std::size_t>(worker.index); i < items;
         i += static_cast<std::size_t>(worker.count)) {
        work(i);
    }
}

/// Prefetch memory into the cache: cache entries are scattered, which defeats the hardware prefetcher.
void prefetch(const void* memory, std::size_t bytes) {
    constexpr std::size_t cache_line = 64;
    for (std::size_t i = 0; i < bytes; i += cache_line) __builtin_prefetch(static_cast<const std::byte*>(memory) + i);
}

/// Call `work` with the attention kernels for the number format of the cache.
template <class Work>
void with_attention_kernels(const KernelTable& kernels, const HeadLayout& heads, const Work& work) {
    if (heads.float32_cache) {
        work(kernels.attention_float32);
    } else {
        work(kernels.attention_bfloat16);
    }
}

template <class Element>
void transpose_keys(const AttentionKernels<Element>& kernels, const float* keys, std::size_t stride, std::size_t length,
                    std::size_t head_dim, Element* blocks) {
    for (std::size_t position = 0; position < length; position += simd_width) {
        kernels.transpose_keys(keys + position * stride, stride, std::min(simd_width, length - position), head_dim,
                               blocks + position * head_dim);
    }
}

/// Self-attention of decoder rows, one row and key-value head at a time.
template <class Element>
class CachedAttention {
public:
    CachedAttention(const ForwardPass& pass, const AttentionKernels<Element>& kernels, const HeadLayout& heads,
                    const PositionEncoding& positions, float scale, const RowCaches& caches, std::size_t width)
        : pass_(pass),
          kernels_(kernels),
          heads_(heads),
          positions_(positions),
          scale_(scale),
          caches_(caches),
          width_(width) {}

    /// Rotate queries and key, and write key and value to the current cache entry.
    void write(std::size_t row, std::size_t kv_head) const {
        float *key = projected(row, heads_.num_heads + kv_head), *value = key + heads_.kv_width();
        if (positions_.is_rotary()) {
            positions_.apply_rope(key, caches_.positions[row]);
            for (std::size_t g = 0; g < heads_.queries_per_kv_head(); g++) {
                positions_.apply_rope(projected(row, kv_head * heads_.queries_per_kv_head() + g),
                                      caches_.positions[row]);
            }
        }
        Element* entry =
            reinterpret_cast<Element*>(caches_.current[row]) + heads_.kv_offset() + kv_head * heads_.head_width;
        kernels_.store_kv(key, heads_.head_width, entry);
        kernels_.store_kv(value, heads_.head_width, entry + heads_.kv_width());
    }

    void attend(std::size_t row, std::size_t kv_head) const {
        std::size_t keys = caches_.positions[row] + 1;
        if (pass_.worker().skips(heads_.queries_per_kv_head() * keys * 2 * heads_.head_dim)) return;
        std::size_t bytes = heads_.element_bytes(), offset = (heads_.kv_offset() + kv_head * heads_.head_width) * bytes;
        PagedKv kv = {caches_.history[row], caches_.positions[row] + 1, offset, offset + heads_.kv_width() * bytes};
        for (std::size_t g = 0; g < heads_.queries_per_kv_head(); g++) {
            std::size_t head = kv_head * heads_.queries_per_kv_head() + g;
            kernels_.paged(projected(row, head), kv, scale_,
                           positions_.bias(heads_.head_id(head), caches_.positions[row]), pass_.scratch(),
                           pass_.attention(row) + head * heads_.head_width, heads_.head_width);
        }
    }

    void prefetch_kv(std::size_t row, std::size_t kv_head) const {
        std::size_t bytes = heads_.element_bytes(), offset = (heads_.kv_offset() + kv_head * heads_.head_width) * bytes;
        std::size_t length = caches_.positions[row] + 1, count = std::min(length, max_prefetched_positions);
        for (std::size_t position = length - count; position < length; position++) {
            const std::byte* entry = caches_.history[row][position] + offset;
            prefetch(entry, heads_.head_width * bytes);
            prefetch(entry + heads_.kv_width() * bytes, heads_.head_width * bytes);
        }
    }

private:
    float* projected(std::size_t row, std::size_t head) const {
        return pass_.projected() + row * width_ + head * heads_.head_width;
    }

    const ForwardPass& pass_;
    const AttentionKernels<Element>& kernels_;
    const HeadLayout& heads_;
    const PositionEncoding& positions_;
    const float scale_;
    const RowCaches& caches_;
    const std::size_t width_;
};

}  // namespace

void encoder_self_attention(const ForwardPass& pass, const KernelTable& kernels, const HeadLayout& heads,
                            const PositionEncoding& positions, float scale, const std::vector<SourceRows>& sources,
                            std::size_t width) {
    for_interleaved_items(pass.worker(), sources.size() * heads.num_kv_heads, [&](std::size_t item) {
        auto [first, length] = sources[item / heads.num_kv_heads];
        std::size_t kv_head = item % heads.num_kv_heads, head = kv_head * heads.queries_per_kv_head();
        float* queries = pass.projected() + first * width + head * heads.head_width;
        float* keys = pass.projected() + first * width + (heads.num_heads + kv_head) * heads.head_width;
        if (positions.is_rotary()) {
            for (std::size_t position = 0; position < length; position++) {
                positions.apply_rope(keys + position * width, position);
                for (std::size_t g = 0; g < heads.queries_per_kv_head(); g++) {
                    positions.apply_rope(queries + position * width + g * heads.head_width, position);
                }
            }
        }
        float* scores = pass.scratch();
        float* blocks = scores + query_tile * round_up(length, simd_width);
        transpose_keys(kernels.attention_float32, keys, width, length, heads.head_dim, blocks);
        BlockedKv<float> kv = {blocks, keys + heads.kv_width(), width, length, heads.head_dim};
        std::size_t output_stride = static_cast<std::size_t>(pass.attention(1) - pass.attention(0));
        for (std::size_t query = 0; query < length; query += queries_per_check) {
            std::size_t count = std::min(queries_per_check, length - query);
            if (pass.worker().skips(heads.queries_per_kv_head() * count * length * 2 * heads.head_dim)) return;
            for (std::size_t g = 0; g < heads.queries_per_kv_head(); g++) {
                kernels.attention_float32.blocked({queries + query * width + g * heads.head_width, width, count}, kv,
                                                  scale, {positions.bias(heads.head_id(head + g), query), -1}, scores,
                                                  pass.attention(first + query) + (head + g) * heads.head_width,
                                                  output_stride, heads.head_width);
            }
        }
    });
}

void decoder_self_attention(const ForwardPass& pass, const KernelTable& kernels, const HeadLayout& heads,
                            const PositionEncoding& positions, float scale, const RowCaches& caches,
                            std::size_t width) {
    with_attention_kernels(kernels, heads, [&](const auto& attention_kernels) {
        CachedAttention attention(pass, attention_kernels, heads, positions, scale, caches, width);
        std::size_t items = pass.rows() * heads.num_kv_heads, step = static_cast<std::size_t>(pass.worker().count);
        auto row = [&](std::size_t item) { return item / heads.num_kv_heads; };
        auto kv_head = [&](std::size_t item) { return item % heads.num_kv_heads; };
        if (caches.rows_depend) {
            for_interleaved_items(pass.worker(), items, [&](std::size_t i) { attention.write(row(i), kv_head(i)); });
            pass.worker().wait();
            for_interleaved_items(pass.worker(), items, [&](std::size_t i) { attention.attend(row(i), kv_head(i)); });
        } else {
            for_interleaved_items(pass.worker(), items, [&](std::size_t i) {
                if (i + step < items) attention.prefetch_kv(row(i + step), kv_head(i + step));
                attention.write(row(i), kv_head(i));
                attention.attend(row(i), kv_head(i));
            });
        }
    });
}

void cross_attention(const ForwardPass& pass, const KernelTable& kernels, const HeadLayout& heads, float scale,
                     const std::vector<const EncodedSource*>& sources, std::size_t beam_size, std::size_t width,
                     const RecordedWeights* recorded) {
    std::size_t output_stride = static_cast<std::size_t>(pass.attention(1) - pass.attention(0));
    auto kv_of = [&](const auto& attention_kernels, std::size_t index, std::size_t kv_head) {
        using Element = std::remove_reference_t<decltype(*attention_kernels.element())>;
        const EncodedSource& source = *sources[index];
        std::size_t length = source.length;
        const Element* memory =
            reinterpret_cast<const Element*>(source.keys_values.data()) + heads.cross_kv_offset(length);
        return BlockedKv<Element>{memory + kv_head * round_up(length, simd_width) * heads.head_dim,
                                  memory + heads.cross_keys_size(length) + kv_head * heads.head_width, heads.kv_width(),
                                  length, heads.head_dim};
    };
    auto prefetch_kv = [&](const auto& kv) {
        std::size_t bytes = heads.element_bytes(), count = std::min(kv.length, max_prefetched_positions);
        prefetch(kv.keys, round_up(count, simd_width) * heads.head_dim * bytes);
        for (std::size_t position = 0; position < count; position++) {
            prefetch(kv.values + position * kv.value_stride, heads.head_width * bytes);
        }
    };
    auto attend = [&](const auto& attention_kernels, const auto& kv, std::size_t index, std::size_t kv_head) {
        for (std::size_t g = 0; g < heads.queries_per_kv_head(); g++) {
            std::size_t head = kv_head * heads.queries_per_kv_head() + g, column = head * heads.head_width;
            attention_kernels.blocked({pass.projected() + index * beam_size * width + column, width, beam_size}, kv,
                                      scale, {nullptr, 0}, pass.scratch(), pass.attention(index * beam_size) + column,
                                      output_stride, heads.head_width);
            if (recorded != nullptr) {  // the kernel leaves the weights of its only query in the scratch memory
                std::copy_n(pass.scratch(), kv.length, &recorded->rows.at(index, head * recorded->longest));
            }
        }
    };
    with_attention_kernels(kernels, heads, [&](const auto& attention_kernels) {
        std::size_t items = sources.size() * heads.num_kv_heads, step = static_cast<std::size_t>(pass.worker().count);
        for_interleaved_items(pass.worker(), items, [&](std::size_t i) {
            std::size_t next = i + step, index = i / heads.num_kv_heads, kv_head = i % heads.num_kv_heads;
            if (next < items) {
                prefetch_kv(kv_of(attention_kernels, next / heads.num_kv_heads, next % heads.num_kv_heads));
            }
            std::size_t keys = sources[index]->length;
            if (pass.worker().skips(heads.queries_per_kv_head() * beam_size * keys * 2 * heads.head_dim)) return;
            attend(attention_kernels, kv_of(attention_kernels, index, kv_head), index, kv_head);
        });
    });
}

void store_cross_kv(const ForwardPass& pass, const KernelTable& kernels, const std::vector<HeadLayout>& layers,
                    const std::vector<SourceRows>& rows, const std::vector<EncodedSource*>& sources,
                    std::size_t width) {
    auto store = [&](const auto& attention_kernels, std::size_t index, const HeadLayout& heads) {
        using Element = std::remove_reference_t<decltype(*attention_kernels.element())>;
        auto [first, length] = rows[index];
        const float* keys = pass.projected() + first * width + heads.kv_offset();
        Element* memory =
            reinterpret_cast<Element*>(sources[index]->keys_values.data()) + heads.cross_kv_offset(length);
        for (std::size_t head = 0; head < heads.num_kv_heads; head++) {
            transpose_keys(attention_kernels, keys + head * heads.head_width, width, length, heads.head_dim,
                           memory + head * round_up(length, simd_width) * heads.head_dim);
        }
        Element* values = memory + heads.cross_keys_size(length);
        for (std::size_t position = 0; position < length; position++) {
            attention_kernels.store_kv(keys + heads.kv_width() + position * width, heads.kv_width(),
                                       values + position * heads.kv_width());
        }
    };
    with_attention_kernels(kernels, layers.front(), [&](const auto& attention_kernels) {
        for_interleaved_items(pass.worker(), rows.size() * layers.size(), [&](std::size_t i) {
            store(attention_kernels, i / layers.size(), layers[i % layers.size()]);
        });
    });
}

}  // namespace dragoman
