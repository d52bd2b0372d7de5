// g++ -O2 -std=c++17 example.cpp -o example && dpwitness audit --command './example wrong' --d0 '[0]' --d1 '[1]'
#include <string>

#include "dpwitness.hpp"

int main(int argc, char** argv) {
    const bool wrong = argc > 1 && std::string(argv[1]) == "wrong";
    dpwitness::Program program;
    program.name = wrong ? "half the noise" : "noisy sum";
    program.claim = "pure:1";
    program.domain = R"({"kind":"Records","size":1,"low":0,"high":1})";
    return program.serve([&](const dpwitness::Dataset& data, dpwitness::Rng& rng) {
        double sum = 0;
        for (double value : data.values) sum += std::fmin(std::fmax(value, 0), 1);  // a NaN is 0
        return std::round((sum + rng.laplace(wrong ? 0.5 : 1.0)) * 1024) / 1024;    // low bits that are not rounded leak
    });
}
