// Package fastest remembers how long the fastest answer of each of many targets
// took: what has less time left than that need not be asked.
package fastest

import (
	"sync"
	"time"
)

// Answers is how long the fastest answer of a target took. Its zero value knows none.
// It is safe for concurrent use.
type Answers struct {
	mu   sync.Mutex
	took map[string]time.Duration
}

// most is of how many targets the fastest answer is known.
const most = 1000

// Least returns how long the fastest answer of the target took, 0 if none is known.
func (a *Answers) Least(target string) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.took[target]
}

// Took notes an answer.
func (a *Answers) Took(target string, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if before, ok := a.took[target]; ok {
		a.took[target] = min(before, took)
		return
	}
	if a.took == nil || len(a.took) >= most {
		a.took = map[string]time.Duration{}
	}
	a.took[target] = took
}
