package policy_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/retry"
)

// A map over three items in virtual time: two agents at once, and one more
// attempt for an item whose agent failed. The second item always fails.
func Example() {
	m, err := policy.New(policy.Config{
		MaxParallel: 2,
		Retry: &retry.Policy{
			Attempts: 2,
			Backoff:  backoff.Schedule{Strategy: backoff.Fixed{}, Initial: 20 * time.Second},
		},
	}, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := begin
	var running []int
	for {
		d := m.Next(now)
		switch d.Kind {
		case policy.Start:
			fmt.Printf("%v: item %d, attempt %d\n", now.Sub(begin), d.Item, d.Attempt)
			if _, err := m.Started(d.Item, now); err != nil {
				fmt.Println(err)
				return
			}
			running = append(running, d.Item)
			continue
		case policy.Finished:
			fmt.Printf("%v: %s, %d of %d succeeded\n", now.Sub(begin), d.Status, m.Counts().Succeeded, m.Counts().Total)
			return
		}
		if len(running) == 0 { // all that is left waits
			now = d.Until
			continue
		}
		item := running[0]
		running = running[1:]
		now = now.Add(time.Second)
		outcome := policy.Outcome{OK: item != 2, Err: errors.New("exit status 1")}
		v, err := m.Finished(item, outcome, now)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v: item %d: %v\n", now.Sub(begin), item, v.Fate)
	}
	// Output:
	// 0s: item 1, attempt 1
	// 0s: item 2, attempt 1
	// 1s: item 1: succeeded
	// 1s: item 3, attempt 1
	// 2s: item 2: retry
	// 3s: item 3: succeeded
	// 22s: item 2, attempt 2
	// 23s: item 2: dead_lettered
	// 23s: completed_with_failures, 2 of 3 succeeded
}
