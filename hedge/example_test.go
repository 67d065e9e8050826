package hedge_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/retry"
)

// The first call hangs; the second, beside it, answers.
func ExampleGet() {
	h, err := hedge.New(hedge.Config{Delay: 10 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	hangs := make(chan struct{}, 1)
	hangs <- struct{}{}
	page, err := hedge.Get(context.Background(), h, func(ctx context.Context) (string, error) {
		select {
		case <-hangs:
			<-ctx.Done() // with hedge.ErrLost, as soon as the other has won
			return "", context.Cause(ctx)
		default:
			return "hello", nil
		}
	})
	fmt.Println(page, err)
	// Output: hello <nil>
}

// An error that another replica may not have is followed by a second call at once.
func ExampleDo() {
	h, err := hedge.New(hedge.Config{Delay: time.Hour, HedgeIf: func(error) bool { return true }})
	if err != nil {
		fmt.Println(err)
		return
	}
	fails := make(chan struct{}, 1)
	fails <- struct{}{}
	err = hedge.Do(context.Background(), h, func(context.Context) error {
		select {
		case <-fails:
			return errors.New("this replica is down")
		default:
			return nil
		}
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleNew() {
	_, err := hedge.New(hedge.Config{Quantile: 95})
	fmt.Println(err)
	// Output: hedge: Quantile is 95; it must be between 0 and 1, where 0.99 is 99 %, or 0 for 0.95
}

// For a variable of a package, whose settings are in the text of the program.
func ExampleMust() {
	var h = hedge.Must(hedge.New(hedge.Config{Delay: 50 * time.Millisecond}))
	fmt.Println(h.Delay())
	// Output: 50ms
}

// A function that is hedged, for another layer to call.
func ExampleFunc() {
	h := hedge.Must(hedge.New(hedge.Config{Delay: time.Hour, HedgeIf: retry.Transient}))
	down := make(chan error, 1)
	down <- syscall.ECONNREFUSED
	fetch := hedge.Func(h, func(context.Context) (string, error) {
		select {
		case err := <-down:
			return "", err
		default:
			return "hello", nil
		}
	})
	page, err := guard.Get(context.Background(), guard.Must(guard.New(guard.Timeout(time.Minute))), fetch)
	fmt.Println(page, err)
	// Output: hello <nil>
}
