package circuit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/circuit"
)

func ExampleGet() {
	b, err := circuit.New(circuit.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	page, err := circuit.Get(context.Background(), b, func(context.Context) (string, error) { return "hello", nil })
	fmt.Println(page, err, b.State())
	// Output: hello <nil> closed
}

// Half of the calls of a minute, of 20 at least, may fail, and half of them be
// slower than 2 s.
func ExampleNew_rates() {
	b, err := circuit.New(circuit.Config{
		FailureRate: 0.5, SlowCall: 2 * time.Second, SlowRate: 0.5,
		WindowTime: time.Minute, MinCalls: 20,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 20 {
		_ = circuit.Do(context.Background(), b, func(context.Context) error {
			if i%2 == 0 {
				return errors.New("down")
			}
			return nil
		})
	}
	fmt.Println(b.State())
	// Output: open
}

// By hand, for maintenance.
func ExampleBreaker_Open() {
	b, err := circuit.New(circuit.Config{Name: "db"})
	if err != nil {
		fmt.Println(err)
		return
	}
	b.Open(true) // until Close
	fmt.Println(b.State())
	b.Close()
	fmt.Println(b.State())
	// Output:
	// open
	// closed
}

// What cannot be called as a function asks for a permit.
func ExampleBreaker_Acquire() {
	b, err := circuit.New(circuit.Config{FailureThreshold: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	permit, err := b.Acquire()
	if err != nil {
		fmt.Println(err)
		return
	}
	permit.Done(circuit.Failure)
	_, err = b.Acquire()
	fmt.Println(errors.Is(err, circuit.ErrOpen))
	// Output: true
}

// A program that ends keeps what it knows of the target.
func ExampleBreaker_Snapshot() {
	config := circuit.Config{FailureThreshold: 1}
	before, err := circuit.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = circuit.Do(context.Background(), before, func(context.Context) error { return errors.New("down") })
	after, err := circuit.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(after.Restore(before.Snapshot()), after.State())
	// Output: <nil> open
}

// For a variable of a package, whose settings are in the text of the program.
func ExampleMust() {
	var b = circuit.Must(circuit.New(circuit.Config{Name: "prices"}))
	fmt.Println(b.Name(), b.State())
	// Output: prices closed
}
