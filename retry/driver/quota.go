package driver

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
)

// Quota bounds the retries of all operations on one target together, so that a
// target which fails for everybody is not buried under retries. Every
// operation deposits a share of a token, a retry takes a whole one before its
// wait, and gets it back if it succeeds. With every attempt failing, n
// operations thus make at most n·Ratio + Initial retries.
//
// Give each target a Quota of its own: with one for several, a target that
// fails takes the retries of those that are well. A Quota is safe for
// concurrent use, reads no clock, and is exact: it never grants a token twice.
// (After the retry budget of Finagle and the token bucket of the AWS SDKs.)
type Quota struct {
	balance  atomic.Int64 // in units: a token is tokenUnits
	share    int64        // what an operation deposits
	capacity int64
}

// QuotaConfig is the settings of a [Quota].
type QuotaConfig struct {
	// Ratio is how many retries each operation earns, from 0 to 1000, in
	// steps of a thousandth: 0 means 0.1, one retry for ten operations; a
	// negative value means none.
	Ratio float64

	// Initial is how many retries there are to begin with: 0 means 10, a
	// negative value means none.
	Initial int

	// Capacity is how many retries can be saved up, at least Initial and at
	// least 1: 0 means 100, or Initial if that is more.
	Capacity int
}

const tokenUnits = 1000

// NewQuota returns a quota that has Initial retries to begin with, or an error that names every
// setting out of its range.
func NewQuota(config QuotaConfig) (*Quota, error) {
	ratio, initial := max(cmp.Or(config.Ratio, 0.1), 0), max(cmp.Or(config.Initial, 10), 0)
	capacity := cmp.Or(config.Capacity, max(100, initial))
	var problems []error
	if math.IsNaN(ratio) || ratio > 1000 {
		problems = append(problems, fmt.Errorf("retry: Ratio is %v; it must be from 0 to 1000", ratio))
	}
	const most = math.MaxInt64 / tokenUnits / 2
	if initial > most {
		problems = append(problems, fmt.Errorf("retry: Initial is %d; it must be at most %d", initial, int64(most)))
	} else if capacity < max(initial, 1) || capacity > most {
		problems = append(problems, fmt.Errorf("retry: Capacity is %d; it must be at least 1 and the Initial of %d, and at most %d", capacity, initial, int64(most)))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	q := &Quota{share: int64(math.Round(ratio * tokenUnits)), capacity: int64(capacity) * tokenUnits}
	q.balance.Store(int64(initial) * tokenUnits)
	return q, nil
}

// Balance returns how many retries there are left, in tokens.
func (q *Quota) Balance() float64 {
	return float64(q.balance.Load()) / tokenUnits
}

// deposit adds an operation's share.
func (q *Quota) deposit() { q.add(q.share) }

// giveBack returns the token of a retry that succeeded or was not made.
func (q *Quota) giveBack() { q.add(tokenUnits) }

// add adds units up to the capacity.
func (q *Quota) add(units int64) {
	for {
		balance := q.balance.Load()
		if balance >= q.capacity || units == 0 {
			return
		}
		if q.balance.CompareAndSwap(balance, min(balance+units, q.capacity)) {
			return
		}
	}
}

// take takes a token if there is a whole one.
func (q *Quota) take() bool {
	for {
		balance := q.balance.Load()
		if balance < tokenUnits {
			return false
		}
		if q.balance.CompareAndSwap(balance, balance-tokenUnits) {
			return true
		}
	}
}
