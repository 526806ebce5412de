// Peak rates of this machine: bytes read from memory and products of 8-bit numbers in a second.
//
//     g++ -O3 -march=native -pthread benchmarks/translation_speed/roofline.cpp -o /tmp/roofline && /tmp/roofline 2
//
// Memory: each thread adds up a part of an array that exceeds all caches. Products: each thread keeps 24 sums in registers
// and adds four products of bytes to each lane with `vpdpbusd`, without memory access. The best of several rounds is printed.
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t bytes = std::size_t{1} << 30;
constexpr int rounds = 9, sums = 24;
constexpr std::int64_t repeats = 20'000'000;

/// Return the seconds until all threads have done `work(number)`, in the best of the rounds.
double best_seconds(int threads, const std::function<void(int)>& work) {
    double best = 1e9;
    for (int round = 0; round < rounds; round++) {
        auto start = std::chrono::steady_clock::now();
        std::vector<std::thread> workers;
        for (int number = 0; number < threads; number++) workers.emplace_back(work, number);
        for (std::thread& thread : workers) thread.join();
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
}

std::int64_t sum_of(const __m512i* begin, const __m512i* end) {
    __m512i totals[8] = {};
    for (; begin + 8 <= end; begin += 8) {
        for (int i = 0; i < 8; i++) totals[i] = _mm512_add_epi64(totals[i], _mm512_load_si512(begin + i));
    }
    for (int i = 1; i < 8; i++) totals[0] = _mm512_add_epi64(totals[0], totals[i]);
    return _mm512_reduce_add_epi64(totals[0]);
}

std::int64_t multiply(std::int64_t times) {
    __m512i totals[sums] = {}, left = _mm512_set1_epi32(0x01020304), right = _mm512_set1_epi32(0x04030201);
    for (std::int64_t time = 0; time < times; time++) {
#pragma GCC unroll 32
        for (int i = 0; i < sums; i++) {
            totals[i] = _mm512_dpbusd_epi32(totals[i], left, right);
            asm volatile("" : "+v"(totals[i]));  // otherwise the compiler merges the equal sums
        }
    }
#pragma GCC unroll 32
    for (int i = 1; i < sums; i++) totals[0] = _mm512_add_epi32(totals[0], totals[i]);
    return _mm512_reduce_add_epi32(totals[0]);
}

}  // namespace

int main(int count, char** arguments) {
    int threads = count > 1 ? std::atoi(arguments[1]) : static_cast<int>(std::thread::hardware_concurrency());
    auto* array = static_cast<__m512i*>(std::aligned_alloc(64, bytes));
    std::fill(reinterpret_cast<std::int64_t*>(array), reinterpret_cast<std::int64_t*>(array) + bytes / 8, 1);
    std::vector<std::int64_t> results(static_cast<std::size_t>(threads) * 8);
    std::size_t vectors = bytes / sizeof(__m512i) / static_cast<std::size_t>(threads);
    double read = best_seconds(threads, [&](int number) {
        auto first = array + vectors * static_cast<std::size_t>(number);
        results[static_cast<std::size_t>(number) * 8] = sum_of(first, first + vectors);
    });
    double product = best_seconds(threads, [&](int number) {
        results[static_cast<std::size_t>(number) * 8] += multiply(repeats / 8);
    });
    std::int64_t all = 0;
    for (std::int64_t result : results) all += result;
    std::printf("{\"threads\": %d, \"gigabytes_per_second\": %.1f, \"tera_products_per_second\": %.3f, \"sum\": %lld}\n", threads,
                bytes / read / 1e9, 64.0 * sums * (repeats / 8) * threads / product / 1e12, static_cast<long long>(all));
    std::free(array);
}
