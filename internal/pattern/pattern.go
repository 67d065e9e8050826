// Package pattern has regular expressions that are compiled when they are first
// used. A package that compiles its own at its start makes every start of bide
// pay for them, also where none of them is needed.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy gives a function that compiles expr, an RE2 expression, at its first call
// and gives the same result at every further one. Like [regexp.MustCompile] it
// panics where expr is wrong, then instead of at once: it is for expressions
// that stand in the source and that tests use. The function may be called by
// many goroutines at once.
func Lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
