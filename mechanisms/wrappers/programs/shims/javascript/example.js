// dpwitness audit --command 'node example.js wrong' --d0 '[0]' --d1 '[1]'
"use strict";
const { serve } = require("./dpwitness.js");

const wrong = process.argv[2] === "wrong";
const scale = wrong ? 0.5 : 1;
const about = { name: wrong ? "half the noise" : "noisy sum", claim: "pure:1", domain: { kind: "Records", size: 1, low: 0, high: 1 } };

serve(about, (dataset, rng) => {
  let sum = 0;
  for (const value of dataset) sum += Math.min(Math.max(value || 0, 0), 1); // a NaN is 0
  return Math.round((sum + rng.laplace(scale)) * 1024) / 1024; // low bits that are not rounded leak
});
