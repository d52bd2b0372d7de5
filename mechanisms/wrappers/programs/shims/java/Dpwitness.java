// Serve a function to dpwitness over standard input and output: docs/reference/protocol.md, version 1. Java 11 or later, this file alone.
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** {@code new Dpwitness("mine").claim("pure:1").serve((data, rng) -> value)}. An exception is an output; what is printed goes to standard error. */
public final class Dpwitness {
    /** One run. */
    public interface Run {
        double of(Dataset data, Rng rng) throws Exception;
    }

    /** A batch: fill out, which has size times columns places. */
    public interface Batch {
        void of(Dataset data, int size, Rng rng, double[] out) throws Exception;
    }

    /** Row by row; {@code json} is what it is where it is no array of floats. */
    public static final class Dataset {
        public double[] values = {};
        public int[] shape = {};
        public String json = "";
    }

    /**
     * SFC64 (Doty-Humphrey): a, b from four 32-bit words, c = 0, counter = 1, then 18 words are left out. The same numbers in every shim.
     */
    public static final class Rng {
        private long a, b, c = 0, counter = 1;

        public Rng(long[] words) {
            a = words[0] | words[1] << 32;
            b = words[2] | words[3] << 32;
            for (int i = 0; i < 18; i++) next();
        }

        public long next() {
            long out = a + b + counter++;
            a = b ^ (b >>> 11);
            b = c + (c << 3);
            c = Long.rotateLeft(c, 24) + out;
            return out;
        }

        /** In [0, 1). */
        public double uniform() {
            return (next() >>> 11) * 0x1p-53;
        }

        public double laplace(double scale) {
            long word = next();
            double tail = -Math.log(((word >>> 11) + 1) * 0x1p-53); // the sign is a bit that the tail does not use
            return (word & 1) == 1 ? scale * tail : -scale * tail;
        }
    }

    private final String name;
    private final StringBuilder more = new StringBuilder();
    private String datasets = "[\"float64\"]";
    private int columns = 1;
    private final InputStream in = new BufferedInputStream(System.in, 1 << 16);
    private final OutputStream out = new FileOutputStream(FileDescriptor.out);

    public Dpwitness(String name) {
        this.name = name;
    }

    public Dpwitness version(String text) {
        more.append(",\"version\":").append(quoted(text));
        return this;
    }

    public Dpwitness claim(String text) {
        more.append(",\"claim\":").append(quoted(text));
        return this;
    }

    /** The JSON of a domain. */
    public Dpwitness domain(String json) {
        more.append(",\"domain\":").append(json);
        return this;
    }

    /** The JSON of the encodings that are read, such as ["float64","json"]. */
    public Dpwitness datasets(String json) {
        datasets = json;
        return this;
    }

    /** Of a batch. */
    public Dpwitness columns(int count) {
        columns = count;
        return this;
    }

    public void serve(Run run) throws IOException {
        serve((Dataset data, int size, Rng rng, double[] values) -> {
            for (int i = 0; i < size; i++) values[i] = run.of(data, rng);
        });
    }

    public void serve(Batch batch) throws IOException {
        System.setOut(new PrintStream(System.err, true));
        String told = "{\"protocol\":1,\"name\":" + quoted(name) + ",\"seedable\":true,\"datasets\":" + datasets;
        say(told + ",\"outputs\":[\"float64\"]" + more + "}");
        Map<Long, Dataset> kept = new HashMap<>();
        ByteBuffer block = null;
        double[] values = {};
        for (String asked; (asked = line()) != null; ) {
            Long id = number(asked, "dataset");
            if (id != null && asked.startsWith("{\"op\":\"dataset\",")) {
                kept.put(id, dataset(asked));
                continue;
            }
            Long size = number(asked, "size");
            long[] seed = numbers(asked, "seed");
            if (!asked.startsWith("{\"op\":\"run\",") || size == null || seed == null || seed.length != 4) {
                say("{\"failed\":\"no request that is known\"}");
            } else if (size < 1 || !kept.containsKey(id)) {
                say(size < 1 ? "{\"failed\":\"size must be at least 1\"}" : "{\"failed\":\"no dataset has this number\"}");
            } else {
                int count = Math.toIntExact(size * columns);
                if (values.length != count) {
                    values = new double[count];
                    block = ByteBuffer.allocate(8 * count).order(ByteOrder.LITTLE_ENDIAN);
                }
                try {
                    batch.of(kept.get(id), size.intValue(), new Rng(seed), values);
                } catch (Exception error) {
                    say("{\"raised\":" + quoted(error.getClass().getSimpleName()) + ",\"text\":" + quoted(String.valueOf(error.getMessage())) + "}");
                    continue;
                }
                block.asDoubleBuffer().put(values);
                say("{\"kind\":\"float64\",\"rows\":" + size + ",\"columns\":" + columns + "}");
                out.write(block.array());
            }
        }
    }

    private Dataset dataset(String asked) throws IOException {
        Dataset data = new Dataset();
        if (asked.indexOf("\"value\":") >= 0 && !(asked.indexOf("\"encoding\":\"float64\"") >= 0
                && asked.indexOf("\"encoding\":\"float64\"") < asked.indexOf("\"value\":"))) {
            data.json = asked.substring(asked.indexOf("\"value\":") + 8, asked.length() - 1);
            return data;
        }
        long[] shape = numbers(asked, "shape");
        data.shape = new int[shape.length];
        int count = 1;
        for (int i = 0; i < shape.length; i++) count *= data.shape[i] = Math.toIntExact(shape[i]);
        byte[] bytes = in.readNBytes(8 * count);
        if (bytes.length < 8 * count) throw new EOFException();
        data.values = new double[count];
        ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asDoubleBuffer().get(data.values);
        return data;
    }

    private String line() throws IOException {
        ByteArrayOutputStream found = new ByteArrayOutputStream();
        for (int c; (c = in.read()) >= 0; found.write(c)) if (c == '\n') return found.toString(StandardCharsets.UTF_8);
        return null;
    }

    private void say(String line) throws IOException {
        out.write((line + "\n").getBytes(StandardCharsets.UTF_8));
    }

    /** Of a request, which has no blanks, and whose value stands last. */
    private static Long number(String line, String key) {
        Matcher found = Pattern.compile("\"" + key + "\":(-?\\d{1,18})").matcher(line);
        return found.find() ? Long.valueOf(found.group(1)) : null;
    }

    private static long[] numbers(String line, String key) {
        Matcher found = Pattern.compile("\"" + key + "\":\\[([\\d,]*)\\]").matcher(line);
        if (!found.find()) return null;
        if (found.group(1).isEmpty()) return new long[0];
        return java.util.Arrays.stream(found.group(1).split(",")).mapToLong(Long::parseLong).toArray();
    }

    private static String quoted(String text) {
        StringBuilder found = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c < 0x20 || c > 0x7e || c == '"' || c == '\\') found.append(String.format("\\u%04x", (int) c));
            else found.append(c);
        }
        return found.append('"').toString();
    }
}
