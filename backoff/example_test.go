package backoff_test

import (
	"fmt"

	"github.com/bide-dev/bide/backoff"
)

func ExampleDefault() {
	s := backoff.Default()
	fmt.Println(s.Initial, s.Max, s.Jitter)
	// Output: 100ms 10s full
}

// The same seed gives the same delays.
func ExampleNewRand() {
	s := backoff.Default()
	one, other := backoff.NewRand(7), backoff.NewRand(7)
	fmt.Println(s.Delay(3, 0, one) == s.Delay(3, 0, other))
	// Output: true
}

func ExampleParseJitter() {
	j, err := backoff.ParseJitter("equal")
	fmt.Println(j == backoff.Equal, err)
	// Output: true <nil>
}
