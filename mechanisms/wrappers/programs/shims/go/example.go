// go build -o example . && dpwitness audit --command './example wrong' --d0 '[0]' --d1 '[1]'
package main

import (
	"encoding/json"
	"log"
	"math"
	"os"

	"example/dpwitness"
)

func main() {
	name, scale := "noisy sum", 1.0
	if len(os.Args) > 1 && os.Args[1] == "wrong" {
		name, scale = "half the noise", 0.5
	}
	program := dpwitness.Program{Name: name, Claim: "pure:1", Domain: json.RawMessage(`{"kind":"Records","size":1,"low":0,"high":1}`)}
	err := program.Serve(dpwitness.One(func(data *dpwitness.Dataset, rng *dpwitness.Rng) float64 {
		sum := 0.0
		for _, value := range data.Values {
			if value > 0 { // a NaN is 0
				sum += math.Min(value, 1)
			}
		}
		return math.Round((sum+rng.Laplace(scale))*1024) / 1024 // low bits that are not rounded leak
	}))
	if err != nil {
		log.Fatal(err)
	}
}
