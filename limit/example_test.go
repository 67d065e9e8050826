package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/limit"
)

// Two at once, and nobody waits.
func ExampleNew() {
	slots, err := limit.New(limit.Config{Name: "reports", Concurrency: 2, Queue: limit.NoQueue})
	if err != nil {
		fmt.Println(err)
		return
	}
	inside := func(ctx context.Context, next func(context.Context) error) error { return limit.Do(ctx, slots, next) }
	fmt.Println(inside(context.Background(), func(ctx context.Context) error {
		return inside(ctx, func(ctx context.Context) error {
			return inside(ctx, func(context.Context) error { return nil })
		})
	}))
	// Output: limit "reports": refused: nobody is to wait
}

func ExampleGet() {
	slots := limit.Concurrency(8) // shared by all calls of one target
	page, err := limit.Get(context.Background(), slots, func(context.Context) (string, error) { return "hello", nil })
	fmt.Println(page, err)
	// Output: hello <nil>
}

func ExampleRate() {
	rate := limit.Rate(2, 20*time.Millisecond)
	began := time.Now()
	for range 4 { // two at once, and the others 10 ms apart
		if err := limit.Do(context.Background(), rate, func(context.Context) error { return nil }); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(time.Since(began) >= 20*time.Millisecond)
	// Output: true
}

type overloaded struct{}

func (overloaded) Error() string     { return "overloaded" }
func (overloaded) RateLimited() bool { return true }

// A target that accepts nothing is asked by one attempt in ten.
func ExampleThrottle() {
	throttle := limit.Throttle()
	asked := 0
	for range 1000 {
		err := limit.Do(context.Background(), throttle, func(context.Context) error { asked++; return overloaded{} })
		if err == nil || !errors.Is(err, limit.ErrRefused) && err != (overloaded{}) {
			fmt.Println(err)
		}
	}
	fmt.Println(asked < 150, throttle.Refusing())
	// Output: true 0.9
}

// What a user waits for goes before what runs in the night.
func ExampleWithPriority() {
	ctx := limit.WithPriority(context.Background(), 10)
	fmt.Println(limit.PriorityFrom(ctx), limit.PriorityFrom(context.Background()))
	// Output: 10 0
}

// A driver of its own takes slot and token together.
func ExampleJoin() {
	both, err := limit.Join(limit.Concurrency(1), limit.Rate(10, time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := both.Acquire(context.Background(), limit.Request{}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(both.Try()) // the slot is taken
	both.Release(limit.Result{})
	fmt.Println(both.Try())
	// Output:
	// false
	// true
}

func ExampleAdaptive() {
	slots := limit.Adaptive() // finds by trying how many are good
	fmt.Println(slots.Max())
	// Output: 10
}

func ExampleConcurrency() {
	slots := limit.Concurrency(2)
	_ = limit.Do(context.Background(), slots, func(context.Context) error {
		fmt.Println(slots.InUse(), "of", slots.Max())
		return nil
	})
	// Output: 1 of 2
}

func ExampleDo() {
	rate := limit.Rate(100, time.Second)
	err := limit.Do(context.Background(), rate, func(context.Context) error { return nil })
	fmt.Println(err)
	// Output: <nil>
}

func ExamplePriorityFrom() {
	fmt.Println(limit.PriorityFrom(context.Background()))
	// Output: 0
}

// For a variable of a package, whose settings are in the text of the program.
func ExampleMust() {
	var slots = limit.Must(limit.New(limit.Config{Concurrency: 8, Queue: 100}))
	fmt.Println(slots.Max())
	// Output: 8
}
