// Serve a function to dpwitness over standard input and output: docs/reference/protocol.md, version 1. C++17, this header alone.
//
//   double f(const dpwitness::Dataset&, dpwitness::Rng&)                                   one run; also std::int64_t, or std::vector of either
//   void   f(const dpwitness::Dataset&, std::size_t size, dpwitness::Rng&, double* out)     a batch: out has size * columns places
//
// An exception is an output. Print nothing to standard output.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>
#if defined(__GNUG__)
#include <cxxabi.h>
#endif

namespace dpwitness {

// SFC64 (Doty-Humphrey): a, b from four 32-bit words, c = 0, counter = 1, then 18 words are left out. The same numbers in every shim.
class Rng {
   public:
    using result_type = std::uint64_t;
    explicit Rng(const std::uint32_t (&words)[4])
        : a_(words[0] | std::uint64_t(words[1]) << 32), b_(words[2] | std::uint64_t(words[3]) << 32), c_(0), counter_(1) {
        for (int i = 0; i < 18; ++i) next();
    }
    std::uint64_t next() {
        const std::uint64_t out = a_ + b_ + counter_++;
        a_ = b_ ^ (b_ >> 11);
        b_ = c_ + (c_ << 3);
        c_ = ((c_ << 24) | (c_ >> 40)) + out;
        return out;
    }
    double uniform() { return double(next() >> 11) * 0x1p-53; }  // in [0, 1)
    double laplace(double scale) {
        const std::uint64_t word = next();
        const double tail = -std::log(double((word >> 11) + 1) * 0x1p-53);  // the sign is a bit that the tail does not use
        return (word & 1) ? scale * tail : -scale * tail;
    }
    static constexpr std::uint64_t min() { return 0; }  // for the distributions of <random>
    static constexpr std::uint64_t max() { return ~std::uint64_t(0); }
    std::uint64_t operator()() { return next(); }

   private:
    std::uint64_t a_, b_, c_, counter_;
};

struct Dataset {
    std::vector<double> values;      // row by row
    std::vector<std::size_t> shape;  // one entry a dimension
    std::string json;                // what it is, where it is no array of floats; asked for by Program::datasets
};

struct Program {
    std::string name = "a program", version = "1";
    std::string claim = {}, domain = {};             // such as pure:1, and the JSON of a domain; each may be left out
    std::string datasets = R"(["float64"])";         // or ["float64","json"]
    std::size_t columns = 1;                         // of a batch

    template <class F>
    int serve(F f) const;
};

namespace detail {

inline std::string quoted(const std::string& text) {
    std::string out = "\"";
    char code[8];
    for (unsigned char c : text) {
        if (c < 0x20 || c == '"' || c == '\\' || c > 0x7e) {
            std::snprintf(code, sizeof code, "\\u%04x", c);
            out += code;
        } else
            out += char(c);
    }
    return out + '"';
}

// The text behind "key": in a request; requests have no blanks, and a dataset's value stands last.
inline const char* after(const std::string& line, const char* key) {
    const auto at = line.find("\"" + std::string(key) + "\":");
    return at == std::string::npos ? nullptr : line.c_str() + at + std::char_traits<char>::length(key) + 3;
}

inline bool number(const char*& at, long long& out) {
    if (at == nullptr) return false;
    char* end = nullptr;
    out = std::strtoll(at, &end, 10);
    if (end == at) return false;
    at = end;
    return true;
}

inline std::vector<long long> numbers(const char* at) {
    std::vector<long long> out;
    long long value = 0;
    if (at == nullptr || *at != '[') return out;
    while (*at != ']' && *at != '\0' && number(++at, value)) out.push_back(value);
    return out;
}

inline std::string name_of(const std::exception& error) {
    std::string name = typeid(error).name();
#if defined(__GNUG__)
    int status = 0;
    char* plain = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
    if (status == 0) name = plain;
    std::free(plain);
#endif
    return name;
}

inline void say(const std::string& line, const void* block = nullptr, std::size_t bytes = 0) {
    std::fwrite((line + "\n").data(), 1, line.size() + 1, stdout);
    if (bytes) std::fwrite(block, 1, bytes, stdout);
    std::fflush(stdout);
}

template <class T>
struct rows {
    using type = T;
    static void add(std::vector<T>& out, const T& value, std::size_t& columns) { columns = 1, out.push_back(value); }
};
template <class T>
struct rows<std::vector<T>> {
    using type = T;
    static void add(std::vector<T>& out, const std::vector<T>& value, std::size_t& columns) {
        if (!out.empty() && value.size() != columns) throw std::length_error("outputs of one batch must be of one length");
        columns = value.size(), out.insert(out.end(), value.begin(), value.end());
    }
};

template <class F>
constexpr bool is_batch = std::is_invocable_v<F, const Dataset&, std::size_t, Rng&, double*>;

template <class F, bool = is_batch<F>>
struct output_of {
    using type = double;
};
template <class F>
struct output_of<F, false> {
    using type = typename rows<std::decay_t<std::invoke_result_t<F, const Dataset&, Rng&>>>::type;
};

}  // namespace detail

template <class F>
int Program::serve(F f) const {
    using namespace detail;
    using T = typename output_of<F>::type;
    static_assert(sizeof(T) == 8 && std::is_arithmetic_v<T>, "outputs are double or std::int64_t");
    const std::string kind = std::is_floating_point_v<T> ? "float64" : "int64";
    say("{\"protocol\":1,\"name\":" + quoted(name) + ",\"version\":" + quoted(version) + ",\"seedable\":true,\"datasets\":" + datasets +
        ",\"outputs\":[\"" + kind + "\"]" + (claim.empty() ? "" : ",\"claim\":" + quoted(claim)) +
        (domain.empty() ? "" : ",\"domain\":" + domain) + "}");
    std::map<long long, Dataset> kept;
    std::vector<T> out;
    std::string line;
    for (int c; (c = std::getc(stdin)) != EOF;) {
        if (c != '\n') {
            line += char(c);
            continue;
        }
        const std::string asked = std::exchange(line, {});
        const char* at = after(asked, "dataset");
        long long id = 0;
        const bool named = number(at, id);
        if (named && asked.rfind("{\"op\":\"dataset\",", 0) == 0) {
            Dataset data;
            if (asked.find("\"encoding\":\"float64\"") < asked.find("\"value\":")) {
                std::size_t count = 1;
                for (long long n : numbers(after(asked, "shape"))) data.shape.push_back(std::size_t(n)), count *= std::size_t(n);
                data.values.resize(count);
                if (std::fread(data.values.data(), 8, count, stdin) != count) return 1;
            } else if (const char* value = after(asked, "value"))
                data.json.assign(value, asked.c_str() + asked.size() - 1);
            kept[id] = std::move(data);
            continue;
        }
        long long size = 0;
        const auto words = numbers(after(asked, "seed"));
        if (asked.rfind("{\"op\":\"run\",", 0) != 0 || !number(at = after(asked, "size"), size) || words.size() != 4) {
            say("{\"failed\":\"no request that is known\"}");
        } else if (size < 1 || !named || kept.find(id) == kept.end()) {
            say(size < 1 ? "{\"failed\":\"size must be at least 1\"}" : "{\"failed\":\"no dataset has this number\"}");
        } else {
            const std::uint32_t seed[4] = {std::uint32_t(words[0]), std::uint32_t(words[1]), std::uint32_t(words[2]), std::uint32_t(words[3])};
            Rng rng(seed);
            const Dataset& data = kept[id];
            std::size_t width = columns;
            try {
                if constexpr (is_batch<F>) {
                    out.resize(std::size_t(size) * columns);
                    f(data, std::size_t(size), rng, out.data());
                } else {
                    out.clear();
                    for (long long i = 0; i < size; ++i) rows<std::decay_t<std::invoke_result_t<F, const Dataset&, Rng&>>>::add(out, f(data, rng), width);
                }
                say("{\"kind\":\"" + kind + "\",\"rows\":" + std::to_string(size) + ",\"columns\":" + std::to_string(width) + "}", out.data(),
                    8 * out.size());
            } catch (const std::exception& error) {
                say("{\"raised\":" + quoted(name_of(error)) + ",\"text\":" + quoted(error.what()) + "}");
            } catch (...) {
                say("{\"raised\":\"unknown\"}");
            }
        }
    }
    return 0;
}

}  // namespace dpwitness
