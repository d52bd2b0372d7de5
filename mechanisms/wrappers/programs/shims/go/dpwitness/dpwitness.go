// Package dpwitness serves a function over standard input and output: docs/reference/protocol.md, version 1. The standard library, this file alone.
package dpwitness

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
)

// Rng is SFC64 (Doty-Humphrey): a, b from four 32-bit words, c = 0, counter = 1, then 18 words are left out. The same numbers in every shim.
type Rng struct{ a, b, c, counter uint64 }

// NewRng seeds a generator.
func NewRng(words [4]uint32) *Rng {
	rng := &Rng{uint64(words[0]) | uint64(words[1])<<32, uint64(words[2]) | uint64(words[3])<<32, 0, 1}
	for i := 0; i < 18; i++ {
		rng.Next()
	}
	return rng
}

// Next draws a word.
func (r *Rng) Next() uint64 {
	out := r.a + r.b + r.counter
	r.counter++
	r.a = r.b ^ r.b>>11
	r.b = r.c + r.c<<3
	r.c = bits.RotateLeft64(r.c, 24) + out
	return out
}

// Uint64 makes it a source for math/rand/v2.
func (r *Rng) Uint64() uint64 { return r.Next() }

// Uniform draws from [0, 1).
func (r *Rng) Uniform() float64 { return float64(r.Next()>>11) / (1 << 53) }

// Laplace draws noise of this scale; the sign is a bit that the tail does not use.
func (r *Rng) Laplace(scale float64) float64 {
	word := r.Next()
	tail := -math.Log(float64((word>>11)+1) / (1 << 53))
	if word&1 == 1 {
		return scale * tail
	}
	return -scale * tail
}

// Dataset is row by row; JSON is what it is where it is no array of floats.
type Dataset struct {
	Values []float64
	Shape  []int
	JSON   json.RawMessage
}

// Program says what a program is. Datasets are the encodings that it reads, float64 if left out; Columns is the width of a batch, 1 if left out.
type Program struct {
	Name, Version, Claim string
	Domain               json.RawMessage
	Datasets             []string
	Columns              int
}

// One makes a batch of a function of one run.
func One(f func(*Dataset, *Rng) float64) func(*Dataset, int, *Rng, []float64) error {
	return func(data *Dataset, size int, rng *Rng, out []float64) error {
		for i := range out {
			out[i] = f(data, rng)
		}
		return nil
	}
}

type request struct {
	Op       string          `json:"op"`
	Dataset  *int            `json:"dataset"`
	Encoding string          `json:"encoding"`
	Shape    []int           `json:"shape"`
	Value    json.RawMessage `json:"value"`
	Size     int             `json:"size"`
	Seed     []uint32        `json:"seed"`
}

// Serve answers until standard input ends. An error is an output, by the name of its type, and so is a panic. Print nothing to standard output.
func (p Program) Serve(f func(data *Dataset, size int, rng *Rng, out []float64) error) error {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<16), bufio.NewWriterSize(os.Stdout, 1<<16)
	if p.Columns == 0 {
		p.Columns = 1
	}
	if p.Datasets == nil {
		p.Datasets = []string{"float64"}
	}
	hello := map[string]any{"protocol": 1, "name": p.Name, "version": p.Version, "seedable": true, "datasets": p.Datasets, "outputs": []string{"float64"}}
	if p.Claim != "" {
		hello["claim"] = p.Claim
	}
	if p.Domain != nil {
		hello["domain"] = p.Domain
	}
	say := func(message map[string]any) error {
		line, err := json.Marshal(message)
		if err != nil {
			return err
		}
		_, err = out.Write(append(line, '\n'))
		return err
	}
	if err := say(hello); err != nil {
		return err
	}
	kept := map[int]*Dataset{}
	for {
		if err := out.Flush(); err != nil {
			return err
		}
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		var asked request
		if json.Unmarshal(line, &asked) != nil || asked.Dataset == nil {
			asked.Op = ""
		}
		if asked.Op == "dataset" {
			data := &Dataset{Shape: asked.Shape, JSON: asked.Value}
			if asked.Encoding == "float64" {
				count := 1
				for _, n := range asked.Shape {
					count *= n
				}
				data.Values = make([]float64, count)
				if err := binary.Read(in, binary.LittleEndian, data.Values); err != nil {
					return err
				}
			}
			kept[*asked.Dataset] = data
			continue
		}
		if asked.Op != "run" || len(asked.Seed) != 4 {
			say(map[string]any{"failed": "no request that is known"})
		} else if asked.Size < 1 {
			say(map[string]any{"failed": "size must be at least 1"})
		} else if kept[*asked.Dataset] == nil {
			say(map[string]any{"failed": "no dataset has this number"})
		} else {
			values := make([]float64, asked.Size*p.Columns)
			rng := NewRng([4]uint32{asked.Seed[0], asked.Seed[1], asked.Seed[2], asked.Seed[3]})
			name, text := run(f, kept[*asked.Dataset], asked.Size, rng, values)
			if name != "" {
				say(map[string]any{"raised": name, "text": text})
				continue
			}
			fmt.Fprintf(out, "{\"kind\":\"float64\",\"rows\":%d,\"columns\":%d}\n", asked.Size, p.Columns)
			var eight [8]byte
			for _, value := range values {
				binary.LittleEndian.PutUint64(eight[:], math.Float64bits(value))
				out.Write(eight[:])
			}
		}
	}
}

func run(f func(*Dataset, int, *Rng, []float64) error, data *Dataset, size int, rng *Rng, out []float64) (name, text string) {
	defer func() {
		if found := recover(); found != nil {
			name, text = "panic", fmt.Sprint(found)
		}
	}()
	if err := f(data, size, rng, out); err != nil {
		return fmt.Sprintf("%T", err), err.Error()
	}
	return "", ""
}
