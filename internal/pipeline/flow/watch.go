package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Watcher is told what happens to the calls of a run, and knows what happened
// in an earlier life of it. Its methods are called from many goroutines at
// once.
type Watcher interface {
	// Past gives what is known of a call from an earlier life; ok is false
	// where nothing is.
	Past(c *Call) (past Past, ok bool)
	Started(c *Call)
	// Queued says that attempt n waits for throttle or slots before it begins,
	// and for how long, 0 if nobody knows.
	Queued(c *Call, n int, what driver.Source, d time.Duration)
	// Attempt begins; waited is the time it had to wait for throttle and
	// slots.
	Attempt(c *Call, n int, waited time.Duration)
	Failed(c *Call, n int, err error, began, ended time.Time)
	// Retry is decided after the failed attempt n.
	Retry(c *Call, n int, w Wait)
	// Finished is told of every call that Started was, except for those that
	// were interrupted, and of the ones skipped because an input failed.
	Finished(c *Call, e End)
}

// Wait is the wait before another attempt.
type Wait struct {
	Err    error // of the failed attempt
	Delay  time.Duration
	Before time.Duration // the delay before this one
	Asked  time.Duration // that the other side asked for; 0: it did not
	Drawn  string        // as event.Drawing gives it
	Policy *retry.Policy
	State  driver.State // what to continue from, should the run end in the wait
}

// Call is one call in one run.
type Call struct {
	Path   string // unique in the run, the same in every life of it
	Name   string // the variable that it is assigned to, or what it calls
	Callee string
	Pos    diag.Pos
	Type   *types.Type
	Args   []any // run-time values; nil for a skipped one
	// Timeout is that of each attempt; 0: none.
	Timeout time.Duration
	// Priority goes from 0 to 100.
	Priority int

	node *plan.Node
	site *site
}

// Label is the call for a person: "hits = Search", and "pages[3] = Fetch" for
// one that is made for an element of a list.
func (c *Call) Label() string { return label(c.Path, c.Callee) }

func label(path, callee string) string {
	path = path[strings.LastIndexByte(path, '/')+1:] // without the step that it is in
	element, own := "", path
	if i := strings.LastIndex(path, "]."); i >= 0 {
		element, own = path[:i+1], path[i+2:]
	}
	switch name, _, _ := strings.Cut(own, "#"); {
	case name != callee:
		return path + " = " + callee
	case element != "":
		return element + " = " + own
	}
	return own
}

// Digest names what is called and with what: as long as it is the same, so is
// the result, as far as anybody can know.
func (c *Call) Digest() string {
	h := sha256.New()
	h.Write([]byte(c.site.identity()))
	for _, a := range c.Args {
		h.Write([]byte{0})
		h.Write([]byte(value.JSON(types.Encode(a))))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Past is what an earlier life of the run knows of a call.
type Past struct {
	// Done says that the call has ended well, with Value.
	Done  bool
	Value any
	// State is of the retries of a call that did not end.
	State driver.State
	Last  error // of the last failed attempt
}

// Outcome says how a call ended.
type Outcome uint8

// The outcomes.
const (
	Succeeded Outcome = iota
	Degraded          // its fallback or on_error gave the value
	Failed
	Skipped // an input failed
)

// End is the end of a call.
type End struct {
	Outcome  Outcome
	Value    any   // run-time value, of the call's type; nil if it failed
	Err      error // why it failed or is degraded
	Attempts int
	Cached   bool          // the value is from the cache
	Logged   bool          // on_error: log wants the error shown
	Fallback bool          // Value is from its fallback
	Took     time.Duration // waits included
	Waited   time.Duration // of that, for limits and between attempts
	Unkept   error         // why the value is not in the cache on disk, although it should be
}

func (fr *frame) describe(s *site, args []any) *Call {
	p := fr.x.f.plan
	return &Call{Path: fr.pathOf(s), Name: s.node.Call.Name, Callee: s.node.Label, Pos: p.Pos(s.node), Type: s.node.Type, Args: args, Timeout: s.policy.Timeout, Priority: s.priority, node: s.node, site: s}
}

// tellSkipped tells of a call that is not made because an input failed.
func (fr *frame) tellSkipped(i int32, err error) {
	if s := fr.fn.sites[i]; s != nil && fr.x.opt.Watcher != nil && !fr.x.interrupted(err) {
		fr.x.opt.Watcher.Finished(fr.describe(s, nil), End{Outcome: Skipped, Err: err})
	}
}
