//! Serve a function to dpwitness over standard input and output: docs/reference/protocol.md, version 1. The standard library, this file alone.
//!
//! `mod dpwitness;` then `Program { .. }.serve(f)` with `f(&Dataset, size, &mut Rng, &mut Vec<f64>) -> Result<(), Raised>`, which adds
//! `size * columns` numbers; `one(g)` makes it of a function of one run `g(&Dataset, &mut Rng) -> f64`. A `Raised` is an output; a panic is
//! one too, by the name `panic`. Print nothing to standard output.
use std::collections::HashMap;
use std::io::{self, BufRead, Read, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// SFC64 (Doty-Humphrey): a, b from four 32-bit words, c = 0, counter = 1, then 18 words are left out. The same numbers in every shim.
pub struct Rng {
    a: u64,
    b: u64,
    c: u64,
    counter: u64,
}

#[allow(dead_code)]
impl Rng {
    pub fn new(words: [u32; 4]) -> Rng {
        let join = |low: u32, high: u32| low as u64 | (high as u64) << 32;
        let mut rng = Rng { a: join(words[0], words[1]), b: join(words[2], words[3]), c: 0, counter: 1 };
        for _ in 0..18 {
            rng.next();
        }
        rng
    }
    #[inline]
    pub fn next(&mut self) -> u64 {
        let out = self.a.wrapping_add(self.b).wrapping_add(self.counter);
        self.counter = self.counter.wrapping_add(1);
        self.a = self.b ^ (self.b >> 11);
        self.b = self.c.wrapping_add(self.c << 3);
        self.c = self.c.rotate_left(24).wrapping_add(out);
        out
    }
    /// In [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    pub fn laplace(&mut self, scale: f64) -> f64 {
        let word = self.next();
        let tail = -(((word >> 11) + 1) as f64 / (1u64 << 53) as f64).ln(); // the sign is a bit that the tail does not use
        if word & 1 == 1 { scale * tail } else { -scale * tail }
    }
}

/// Row by row; `json` is what it is where it is no array of floats, if `Program::datasets` asks for that.
#[derive(Default)]
#[allow(dead_code)]
pub struct Dataset {
    pub values: Vec<f64>,
    pub shape: Vec<usize>,
    pub json: String,
}

/// What a run raised: the name of an error, and a text.
pub struct Raised(pub String, pub String);

pub struct Program {
    pub name: &'static str,
    pub version: &'static str,
    pub claim: &'static str,
    pub domain: &'static str,
    pub datasets: &'static str,
    pub columns: usize,
}

impl Default for Program {
    fn default() -> Self {
        Program { name: "a program", version: "1", claim: "", domain: "", datasets: "[\"float64\"]", columns: 1 }
    }
}

/// A batch of a function of one run.
pub fn one(f: impl Fn(&Dataset, &mut Rng) -> f64) -> impl Fn(&Dataset, usize, &mut Rng, &mut Vec<f64>) -> Result<(), Raised> {
    move |data, size, rng, out| {
        out.extend((0..size).map(|_| f(data, rng)));
        Ok(())
    }
}

impl Program {
    pub fn serve(&self, f: impl Fn(&Dataset, usize, &mut Rng, &mut Vec<f64>) -> Result<(), Raised>) -> io::Result<()> {
        let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
        let claim = if self.claim.is_empty() { String::new() } else { format!(",\"claim\":{}", quoted(self.claim)) };
        let domain = if self.domain.is_empty() { String::new() } else { format!(",\"domain\":{}", self.domain) };
        writeln!(
            output,
            "{{\"protocol\":1,\"name\":{},\"version\":{},\"seedable\":true,\"datasets\":{},\"outputs\":[\"float64\"]{claim}{domain}}}",
            quoted(self.name), quoted(self.version), self.datasets
        )?;
        output.flush()?;
        let mut kept: HashMap<i64, Dataset> = HashMap::new();
        let (mut line, mut out, mut block) = (Vec::new(), Vec::new(), Vec::new());
        while { line.clear(); input.read_until(b'\n', &mut line)? } > 0 {
            let asked = String::from_utf8_lossy(&line).trim_end().to_string();
            let id = number(&asked, "dataset");
            if let (Some(id), true) = (id, asked.starts_with("{\"op\":\"dataset\",")) {
                let mut data = Dataset::default();
                if after(&asked, "encoding").map_or(false, |rest| rest.starts_with("\"float64\"")) {
                    let shape = numbers(&asked, "shape").unwrap_or_default();
                    data.shape = shape.iter().map(|&n| n as usize).collect();
                    let mut bytes = vec![0u8; 8 * data.shape.iter().product::<usize>()];
                    input.read_exact(&mut bytes)?;
                    data.values = bytes.chunks_exact(8).map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])).collect();
                } else if let Some(value) = after(&asked, "value") {
                    data.json = value[..value.len() - 1].to_string();
                }
                kept.insert(id, data);
                continue;
            }
            let words = numbers(&asked, "seed").filter(|words| words.len() == 4);
            match (asked.starts_with("{\"op\":\"run\","), number(&asked, "size"), words, id.and_then(|id| kept.get(&id))) {
                (true, Some(size), Some(words), Some(data)) if size >= 1 => {
                    let mut rng = Rng::new([words[0] as u32, words[1] as u32, words[2] as u32, words[3] as u32]);
                    out.clear();
                    let ended = catch_unwind(AssertUnwindSafe(|| f(data, size as usize, &mut rng, &mut out)));
                    match ended.unwrap_or_else(|_| Err(Raised("panic".into(), String::new()))) {
                        Ok(()) => {
                            writeln!(output, "{{\"kind\":\"float64\",\"rows\":{size},\"columns\":{}}}", self.columns)?;
                            block.clear();
                            block.extend(out.iter().flat_map(|v: &f64| v.to_le_bytes()));
                            output.write_all(&block)?;
                        }
                        Err(Raised(name, text)) => writeln!(output, "{{\"raised\":{},\"text\":{}}}", quoted(&name), quoted(&text))?,
                    }
                }
                (true, Some(size), Some(_), _) if size < 1 => writeln!(output, "{{\"failed\":\"size must be at least 1\"}}")?,
                (true, Some(_), Some(_), None) => writeln!(output, "{{\"failed\":\"no dataset has this number\"}}")?,
                _ => writeln!(output, "{{\"failed\":\"no request that is known\"}}")?,
            }
            output.flush()?;
        }
        Ok(())
    }
}

fn quoted(text: &str) -> String {
    let inner: String = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if (c as u32) < 0x20 => format!("\\u{:04x}", c as u32),
        c => c.to_string(),
    }).collect();
    format!("\"{inner}\"")
}

/// The text behind a key of a request; requests have no blanks, and a dataset's value stands last.
fn after<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let mark = format!("\"{key}\":");
    line.find(&mark).map(|at| &line[at + mark.len()..])
}

fn number(line: &str, key: &str) -> Option<i64> {
    let rest = after(line, key)?;
    rest[..rest.find([',', '}']).unwrap_or(rest.len())].parse().ok()
}

fn numbers(line: &str, key: &str) -> Option<Vec<i64>> {
    let rest = after(line, key)?.strip_prefix('[')?;
    rest[..rest.find(']')?].split(',').filter(|part| !part.is_empty()).map(|part| part.parse().ok()).collect()
}
