// Noise of the npm packages @stdlib/random-base-laplace and -geometric, drawn from the shim's generator: node stdlib.js laplace FOLDER
"use strict";
const os = require("os");
const path = require("path");
const { serve } = require(path.join(__dirname, "..", "..", "shims", "javascript", "dpwitness.js"));

const [kind, place] = process.argv.slice(2);
const folder = path.resolve(place.replace(/^~(?=\/)/, os.homedir()));
const name = `@stdlib/random-base-${kind}`;
const found = require.resolve(name, { paths: [folder] });
const { version } = require(path.join(folder, "node_modules", name, "package.json"));
const domains = {
  laplace: { kind: "Answers", length: 1, low: -10, high: 10, relation: "l1" },
  geometric: { kind: "Counts", length: 1, low: 0, high: 100 },
};

let now; // the batch's generator
const prng = () => now.uniform();
const draw = kind === "laplace" ? require(found).factory(0, 1, { prng }) : require(found).factory(1 - Math.exp(-1), { prng });

serve({ name, version, claim: "pure:1", domain: domains[kind] }, (dataset, rng) => {
  now = rng;
  return kind === "laplace" ? dataset[0] + draw() : dataset[0] + draw() - draw();
});
