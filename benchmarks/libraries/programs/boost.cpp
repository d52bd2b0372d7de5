// Noise of Boost.Random, drawn from the shim's generator: ./boost laplace
#include <boost/random/geometric_distribution.hpp>
#include <boost/random/laplace_distribution.hpp>
#include <boost/version.hpp>
#include <cmath>
#include <string>

#include "dpwitness.hpp"

int main(int argc, char** argv) {
    const bool whole = argc > 1 && std::string(argv[1]) == "geometric";
    dpwitness::Program program;
    program.name = whole ? "boost geometric_distribution" : "boost laplace_distribution";
    program.version = BOOST_LIB_VERSION;
    program.claim = "pure:1";
    program.domain = whole ? R"({"kind":"Counts","length":1,"low":0,"high":100})"
                           : R"({"kind":"Answers","length":1,"low":-10,"high":10,"relation":"l1"})";
    boost::random::laplace_distribution<> laplace(0.0, 1.0);
    boost::random::geometric_distribution<> geometric(1 - std::exp(-1.0));
    return program.serve([&](const dpwitness::Dataset& data, dpwitness::Rng& rng) {
        if (!whole) return data.values[0] + laplace(rng);
        const double up = geometric(rng), down = geometric(rng);
        return data.values[0] + up - down;
    });
}
