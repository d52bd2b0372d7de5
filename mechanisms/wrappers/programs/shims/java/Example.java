// javac Dpwitness.java Example.java && dpwitness audit --command 'java Example wrong' --d0 '[0]' --d1 '[1]'
public final class Example {
    public static void main(String[] args) throws Exception {
        boolean wrong = args.length > 0 && args[0].equals("wrong");
        Dpwitness program = new Dpwitness(wrong ? "half the noise" : "noisy sum").claim("pure:1").version("1");
        program.domain("{\"kind\":\"Records\",\"size\":1,\"low\":0,\"high\":1}").serve((data, rng) -> {
            double sum = 0;
            for (double value : data.values) sum += value > 0 ? Math.min(value, 1) : 0; // a NaN is 0
            return Math.rint((sum + rng.laplace(wrong ? 0.5 : 1.0)) * 1024) / 1024; // low bits that are not rounded leak
        });
    }
}
