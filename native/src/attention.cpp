#include "attention.hpp"

#include <algorithm>

namespace dragoman {

namespace {

/// Of how many places keys and values are asked for before they are needed: as many as stay near the processor.
constexpr std::size_t places_ahead = 64;

/// `work(i)` for every so many-th of the pieces, so that the heads of a long sentence fall to different members.
template <class Work>
void in_turns(const Team::Member& member, std::size_t pieces, const Work& work) {
    for (std::size_t i = static_cast<std::size_t>(member.number); i < pieces; i += static_cast<std::size_t>(member.count)) {
        work(i);
    }
}

/// Asks for memory before it is needed: what pieces look at is scattered, so that processors cannot guess it.
void ask_for(const void* memory, std::size_t bytes) {
    constexpr std::size_t line = 64;
    for (std::size_t i = 0; i < bytes; i += line) __builtin_prefetch(static_cast<const std::byte*>(memory) + i);
}

template <class Work>
void with_looks(const Kernels& kernels, const Heads& heads, const Work& work) {
    if (heads.cache_in_float32) {
        work(kernels.in_float32);
    } else {
        work(kernels.in_bfloat16);
    }
}

template <class Number>
void transpose(const Looks<Number>& looks, const float* keys, std::size_t stride, std::size_t places, std::size_t head_size,
               Number* blocks) {
    for (std::size_t place = 0; place < places; place += lanes) {
        looks.transpose(keys + place * stride, stride, std::min(lanes, places - place), head_size, blocks + place * head_size);
    }
}

}  // namespace

void look_around(const Pass& pass, const Kernels& kernels, const Heads& heads, const Positions& positions, float scale,
                 const std::vector<Stretch>& sentences, std::size_t width) {
    in_turns(pass.member(), sentences.size() * heads.keys, [&](std::size_t piece) {
        auto [first, places] = sentences[piece / heads.keys];
        std::size_t shared = piece % heads.keys, head = shared * heads.sharing();
        float* queries = pass.projected() + first * width + head * heads.width;
        float* keys = pass.projected() + first * width + (heads.queries + shared) * heads.width;
        if (positions.turns()) {
            for (std::size_t place = 0; place < places; place++) {
                positions.turn(keys + place * width, place);
                for (std::size_t g = 0; g < heads.sharing(); g++) {
                    positions.turn(queries + place * width + g * heads.width, place);
                }
            }
        }
        float* scores = pass.scratch();
        float* blocks = scores + queries_together * rounded_up(places, lanes);
        transpose(kernels.in_float32, keys, width, places, heads.size, blocks);
        BlockKeys<float> seen = {blocks, keys + heads.key_width(), width, places, heads.size};
        std::size_t attended_stride = static_cast<std::size_t>(pass.attended(1) - pass.attended(0));
        for (std::size_t g = 0; g < heads.sharing(); g++) {
            kernels.in_float32.at_blocks({queries + g * heads.width, width, places}, seen, scale,
                                         {positions.bias(heads.name(head + g), 0), -1}, scores,
                                         pass.attended(first) + (head + g) * heads.width, attended_stride, heads.width);
        }
    });
}

void look_back(const Pass& pass, const Kernels& kernels, const Heads& heads, const Positions& positions, float scale,
               const Paths& paths, std::size_t width) {
    auto inputs = [&](std::size_t row, std::size_t head) { return pass.projected() + row * width + head * heads.width; };
    auto write = [&](const auto& looks, std::size_t row, std::size_t shared) {
        using Number = std::remove_reference_t<decltype(*looks.number())>;
        float *key = inputs(row, heads.queries + shared), *value = key + heads.key_width();
        if (positions.turns()) {
            positions.turn(key, paths.places[row]);
            for (std::size_t g = 0; g < heads.sharing(); g++) {
                positions.turn(inputs(row, shared * heads.sharing() + g), paths.places[row]);
            }
        }
        Number* slot = reinterpret_cast<Number*>(paths.own[row]) + heads.begin() + shared * heads.width;
        looks.write(key, heads.width, slot);
        looks.write(value, heads.width, slot + heads.key_width());
    };
    auto look = [&](const auto& looks, std::size_t row, std::size_t shared) {
        std::size_t bytes = heads.number_bytes(), at = (heads.begin() + shared * heads.width) * bytes;
        ScatteredKeys seen = {paths.slots[row], paths.places[row] + 1, at, at + heads.key_width() * bytes};
        for (std::size_t g = 0; g < heads.sharing(); g++) {
            std::size_t head = shared * heads.sharing() + g;
            looks.at_scattered(inputs(row, head), seen, scale, positions.bias(heads.name(head), paths.places[row]), pass.scratch(),
                               pass.attended(row) + head * heads.width, heads.width);
        }
    };
    auto ask = [&](std::size_t row, std::size_t shared) {
        std::size_t bytes = heads.number_bytes(), at = (heads.begin() + shared * heads.width) * bytes;
        std::size_t seen = paths.places[row] + 1, most = std::min(seen, places_ahead);
        for (std::size_t place = seen - most; place < seen; place++) {
            const std::byte* slot = paths.slots[row][place] + at;
            ask_for(slot, heads.width * bytes);
            ask_for(slot + heads.key_width() * bytes, heads.width * bytes);
        }
    };
    with_looks(kernels, heads, [&](const auto& looks) {
        std::size_t pieces = pass.rows() * heads.keys, turn = static_cast<std::size_t>(pass.member().count);
        if (paths.among_rows) {
            in_turns(pass.member(), pieces, [&](std::size_t i) { write(looks, i / heads.keys, i % heads.keys); });
            pass.member().wait();
            in_turns(pass.member(), pieces, [&](std::size_t i) { look(looks, i / heads.keys, i % heads.keys); });
        } else {
            in_turns(pass.member(), pieces, [&](std::size_t i) {
                if (i + turn < pieces) ask((i + turn) / heads.keys, (i + turn) % heads.keys);
                write(looks, i / heads.keys, i % heads.keys);
                look(looks, i / heads.keys, i % heads.keys);
            });
        }
    });
}

void look_across(const Pass& pass, const Kernels& kernels, const Heads& heads, float scale,
                 const std::vector<const Sentence*>& sentences, std::size_t beam, std::size_t width) {
    std::size_t attended_stride = static_cast<std::size_t>(pass.attended(1) - pass.attended(0));
    auto seen_by = [&](const auto& looks, std::size_t number, std::size_t shared) {
        using Number = std::remove_reference_t<decltype(*looks.number())>;
        const Sentence& sentence = *sentences[number];
        std::size_t places = sentence.places;
        const Number* memory = reinterpret_cast<const Number*>(sentence.keys_values.data()) + heads.memory_begin(places);
        return BlockKeys<Number>{memory + shared * rounded_up(places, lanes) * heads.size,
                                 memory + heads.memory_keys(places) + shared * heads.width, heads.key_width(), places,
                                 heads.size};
    };
    auto ask = [&](const auto& seen) {
        std::size_t bytes = heads.number_bytes(), most = std::min(seen.places, places_ahead);
        ask_for(seen.keys, rounded_up(most, lanes) * heads.size * bytes);
        for (std::size_t place = 0; place < most; place++) {
            ask_for(seen.values + place * seen.value_stride, heads.width * bytes);
        }
    };
    auto look = [&](const auto& looks, const auto& seen, std::size_t number, std::size_t shared) {
        for (std::size_t g = 0; g < heads.sharing(); g++) {
            std::size_t head = (shared * heads.sharing() + g) * heads.width;
            looks.at_blocks({pass.projected() + number * beam * width + head, width, beam}, seen, scale, {nullptr, 0},
                            pass.scratch(), pass.attended(number * beam) + head, attended_stride, heads.width);
        }
    };
    with_looks(kernels, heads, [&](const auto& looks) {
        std::size_t pieces = sentences.size() * heads.keys, turn = static_cast<std::size_t>(pass.member().count);
        in_turns(pass.member(), pieces, [&](std::size_t i) {
            if (i + turn < pieces) ask(seen_by(looks, (i + turn) / heads.keys, (i + turn) % heads.keys));
            look(looks, seen_by(looks, i / heads.keys, i % heads.keys), i / heads.keys, i % heads.keys);
        });
    });
}

void remember(const Pass& pass, const Kernels& kernels, const std::vector<Heads>& layers, const std::vector<Stretch>& stretches,
              const std::vector<Sentence*>& sentences, std::size_t width) {
    auto keep = [&](const auto& looks, std::size_t number, const Heads& heads) {
        using Number = std::remove_reference_t<decltype(*looks.number())>;
        auto [first, places] = stretches[number];
        const float* keys = pass.projected() + first * width + heads.begin();
        Number* memory = reinterpret_cast<Number*>(sentences[number]->keys_values.data()) + heads.memory_begin(places);
        for (std::size_t head = 0; head < heads.keys; head++) {
            transpose(looks, keys + head * heads.width, width, places, heads.size,
                      memory + head * rounded_up(places, lanes) * heads.size);
        }
        Number* values = memory + heads.memory_keys(places);
        for (std::size_t place = 0; place < places; place++) {
            looks.write(keys + heads.key_width() + place * width, heads.key_width(), values + place * heads.key_width());
        }
    };
    with_looks(kernels, layers.front(), [&](const auto& looks) {
        in_turns(pass.member(), stretches.size() * layers.size(),
                 [&](std::size_t i) { keep(looks, i / layers.size(), layers[i % layers.size()]); });
    });
}

}  // namespace dragoman
