// rustc -O example.rs && dpwitness audit --command './example wrong' --d0 '[0]' --d1 '[1]'
mod dpwitness;
use dpwitness::{one, Program};

fn main() -> std::io::Result<()> {
    let wrong = std::env::args().nth(1).as_deref() == Some("wrong");
    let program = Program {
        name: if wrong { "half the noise" } else { "noisy sum" },
        claim: "pure:1",
        domain: r#"{"kind":"Records","size":1,"low":0,"high":1}"#,
        ..Program::default()
    };
    program.serve(one(|data, rng| {
        let sum: f64 = data.values.iter().map(|v| v.max(0.0).min(1.0)).sum(); // a NaN is 0
        ((sum + rng.laplace(if wrong { 0.5 } else { 1.0 })) * 1024.0).round() / 1024.0 // low bits that are not rounded leak
    }))
}
