package hedge_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/hedge"
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
	// Output: hedge: quantile is 95; it must be between 0 and 1
}
