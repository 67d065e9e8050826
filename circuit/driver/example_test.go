package driver_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/circuit/driver"
)

func ExampleNewMachine() {
	m, err := driver.NewMachine(driver.Config{FailureThreshold: 1, SuccessThreshold: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) // any clock will do
	ticket, _ := m.Acquire(now)
	m.Done(ticket, driver.Failure, now)
	fmt.Println(m.State(now), m.RetryAfter(now))
	now = now.Add(30 * time.Second)
	ticket, _ = m.Acquire(now)
	m.Done(ticket, driver.Success, now)
	fmt.Println(m.State(now), m.RetryAfter(now))
	// Output:
	// open 30s
	// closed 0s
}

// Who measures calls himself asks the breaker for tickets.
func ExampleNew() {
	b, err := driver.New(driver.Config{Name: "db", SlowCall: time.Second, SlowRate: 1, MinCalls: 1, FailureIf: func(err error) bool { return err.Error() != "no rows" }})
	if err != nil {
		fmt.Println(err)
		return
	}
	ticket, err := b.Admit()
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome := b.Judge(errors.New("no rows"))
	b.Answer(ticket, outcome, 2*time.Second)
	fmt.Println(outcome, b.State())
	// Output: success open
}
