// Serve a function to dpwitness over standard input and output: docs/reference/protocol.md, version 1. Node 14 or later, this file alone.
//
//   serve({ name: "mine", claim: "pure:1" }, (dataset, rng) => value)              one run: a number, an array of numbers, or any JSON value
//   serve({ name: "mine", batch: true }, (dataset, size, rng, out) => {})          a batch: fill all of out, a Float64Array of size places
//
// dataset is a Float64Array with a property `shape`, or what JSON says. An exception is an output. Print nothing to standard output.
"use strict";
const fs = require("fs");

// SFC64 (Doty-Humphrey) on halves of 32 bits: a, b from four words, c = 0, counter = 1, then 18 words are left out. The same numbers in
// every shim.
class Rng {
  constructor(words) {
    this.a = words[0] | 0;
    this.A = words[1] | 0;
    this.b = words[2] | 0;
    this.B = words[3] | 0;
    this.c = this.C = this.N = 0;
    this.n = 1;
    this.high = this.low = 0;
    for (let i = 0; i < 18; i++) this.step();
  }
  // Draws the next word into `high` and `low`.
  step() {
    const { a, A, b, B, c, C, n, N } = this;
    let sum = (a >>> 0) + (b >>> 0) + (n >>> 0);
    const low = sum | 0;
    const high = (A + B + N + (sum >= 4294967296) + (sum >= 8589934592)) | 0;
    this.n = (n + 1) | 0;
    if (this.n === 0) this.N = (N + 1) | 0;
    this.a = b ^ ((b >>> 11) | (B << 21));
    this.A = B ^ (B >>> 11);
    sum = (c >>> 0) + ((c << 3) >>> 0);
    this.b = sum | 0;
    this.B = (C + ((C << 3) | (c >>> 29)) + (sum >= 4294967296)) | 0;
    sum = (((c << 24) | (C >>> 8)) >>> 0) + (low >>> 0);
    this.c = sum | 0;
    this.C = (((C << 24) | (c >>> 8)) + high + (sum >= 4294967296)) | 0;
    this.high = high;
    this.low = low;
  }
  next() {
    this.step();
    return (BigInt(this.high >>> 0) << 32n) | BigInt(this.low >>> 0);
  }
  // In [0, 1).
  uniform() {
    this.step();
    return ((this.high >>> 0) * 2097152 + (this.low >>> 11)) / 9007199254740992;
  }
  laplace(scale) {
    this.step(); // the sign is a bit that the tail does not use
    const tail = -Math.log(((this.high >>> 0) * 2097152 + (this.low >>> 11) + 1) / 9007199254740992);
    return this.low & 1 ? scale * tail : -scale * tail;
  }
}

function serve(options, f) {
  const { batch = false, ...told } = options;
  const outputs = batch ? ["float64"] : ["float64", "json"];
  say({ protocol: 1, version: "1", seedable: true, datasets: ["float64", "json"], outputs, ...told });
  const kept = new Map();
  for (let line; (line = readLine()) !== null; ) {
    let asked;
    try {
      asked = JSON.parse(line);
    } catch (error) {
      asked = {};
    }
    if (asked.op === "dataset") {
      kept.set(asked.dataset, asked.encoding === "float64" ? readArray(asked.shape) : asked.value);
    } else if (asked.op !== "run") {
      say({ failed: "no request that is known" });
    } else if (!(asked.size >= 1)) {
      say({ failed: "size must be at least 1" });
    } else if (!kept.has(asked.dataset)) {
      say({ failed: "no dataset has this number" });
    } else {
      try {
        answer(f, batch, kept.get(asked.dataset), asked.size, new Rng(asked.seed));
      } catch (error) {
        say({ raised: String((error && error.name) || "Error"), text: String((error && error.message) || error) });
      }
    }
  }
}

let room = new Float64Array(0); // of one answer after the other: new memory costs time

function answer(f, batch, dataset, size, rng) {
  if (room.length < size) room = new Float64Array(size);
  const out = room.subarray(0, size);
  if (batch) {
    f(dataset, size, rng, out);
    return say({ kind: "float64", rows: size, columns: 1 }, out);
  }
  const values = [];
  for (let i = 0; i < size; i++) {
    const value = f(dataset, rng);
    if (values.length === 0 && typeof value === "number") out[i] = value;
    else {
      while (values.length < i) values.push(out[values.length]);
      values.push(value);
    }
  }
  if (values.length === 0) return say({ kind: "float64", rows: size, columns: 1 }, out);
  const columns = values[0] && values[0].length;
  if (values.every((row) => Array.isArray(row) && row.length === columns && row.every((v) => typeof v === "number"))) {
    return say({ kind: "float64", rows: size, columns }, Float64Array.from(values.flat()));
  }
  say({ kind: "json", rows: size });
  write(Buffer.from(values.map((value) => json(value) + "\n").join("")));
}

// JSON in which numbers that are not finite stay what they are.
function json(value) {
  if (typeof value === "number") return Number.isFinite(value) ? JSON.stringify(value) : String(value);
  if (Array.isArray(value)) return "[" + value.map(json).join(",") + "]";
  if (value && typeof value === "object") {
    return "{" + Object.keys(value).map((key) => JSON.stringify(key) + ":" + json(value[key])).join(",") + "}";
  }
  return value === undefined ? "null" : JSON.stringify(value);
}

function say(message, block) {
  write(Buffer.from(JSON.stringify(message) + "\n"));
  if (block) write(Buffer.from(block.buffer, block.byteOffset, block.byteLength));
}

function write(bytes) {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += fs.writeSync(1, bytes, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

let rest = Buffer.alloc(0);

function more() {
  const chunk = Buffer.alloc(65536);
  for (;;) {
    try {
      const count = fs.readSync(0, chunk, 0, chunk.length, null);
      rest = Buffer.concat([rest, chunk.subarray(0, count)]);
      return count > 0;
    } catch (error) {
      if (error.code === "EOF") return false;
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

function readLine() {
  let end;
  while ((end = rest.indexOf(10)) < 0) if (!more()) return null;
  const line = rest.toString("utf8", 0, end);
  rest = rest.subarray(end + 1);
  return line;
}

function readArray(shape) {
  const bytes = 8 * shape.reduce((a, b) => a * b, 1);
  while (rest.length < bytes) if (!more()) process.exit(1);
  const found = new Float64Array(bytes / 8);
  Buffer.from(found.buffer).set(rest.subarray(0, bytes));
  rest = rest.subarray(bytes);
  return Object.assign(found, { shape });
}

module.exports = { serve, Rng };
