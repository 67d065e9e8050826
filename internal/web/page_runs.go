package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// perPage is how many runs, items or letters a page lists.
const perPage = 100

// maxWaits is how many of the runs that wait are in the open, above the list.
const maxWaits = 4

// statuses are the filters of the list, in order.
var statuses = []string{event.Running, event.Failed, event.CompletedWithFailures, event.Interrupted, event.Succeeded, unreadable}

type runsBody struct {
	found
	Query    query
	Filters  []filter
	Next     string // the address of the next page; "" for none
	Previous string
	Error    string
	// WaitsSay is how many runs wait for somebody; "" where it is not shown. Of those that
	// stand with it, some are folded.
	WaitsSay         string
	Waits, MoreWaits []WaitingRun
	// DismissAll are the runs of both, and NotShown others behind them, where there are
	// several, and the page may dismiss them.
	DismissAll []string
	NotShown   int
	Change     bool // there are buttons
	HeldUp     []heldUp
	Every      int // see runHead
}

// heldUp is a run on many machines that something holds up.
type heldUp struct{ ID, Name, Text string }

// addHeldUp adds those in progress, as far as the server tells by now.
func (b *runsBody) addHeldUp(p *pages, r *http.Request) {
	if b.OnMachines == 0 || p.opt.Machines == nil {
		return
	}
	m := p.machinesSeen(r.Context(), 0)
	b.Every = m.Every()
	for _, of := range m.Runs {
		if e := p.list.entry(of.Run); e != nil && of.Trouble != "" {
			b.HeldUp = append(b.HeldUp, heldUp{of.Run, e.Name, of.Says()})
		}
	}
}

// filter is a link that turns a filter on or off.
type filter struct {
	Name  string
	Count int
	On    bool
	Href  string
}

func (p *pages) runsPage(w http.ResponseWriter, r *http.Request) error {
	v := r.URL.Query()
	q := query{Text: v.Get("q"), Statuses: v["status"], From: numberOf(r, "from", 0)}
	f, err := p.list.find(q, perPage)
	b := runsBody{found: f, Query: q}
	if err != nil {
		b.Error = err.Error()
	}
	for _, s := range statuses {
		on := false
		rest := url.Values{}
		if q.Text != "" {
			rest.Set("q", q.Text)
		}
		for _, have := range q.Statuses {
			if have == s {
				on = true
			} else {
				rest.Add("status", have)
			}
		}
		if !on {
			rest.Add("status", s)
		}
		if f.Counts[s] > 0 || on {
			b.Filters = append(b.Filters, filter{Name: s, Count: f.Counts[s], On: on, Href: "/?" + rest.Encode()})
		}
	}
	b.Change = !p.opt.ReadOnly
	if f.All > 0 && q.From == 0 && q.Text == "" && len(q.Statuses) == 0 {
		w, err := p.waiting(r.Context())
		if err != nil && b.Error == "" {
			b.Error = err.Error()
		}
		if w.Says != "" {
			b.WaitsSay = capital(w.Says)
		}
		n := min(maxWaits, len(w.Runs))
		b.Waits, b.MoreWaits = w.Runs[:n], w.Runs[n:]
		// The page of a run that cannot be read takes no actions.
		readable := slices.DeleteFunc(slices.Clone(w.Runs), func(w WaitingRun) bool { return w.Status == unreadable })
		if b.Change && len(readable) > 1 {
			b.DismissAll = append(value.Map(readable, func(w WaitingRun) string { return w.ID }), w.More...)
			b.NotShown = len(w.More)
		}
		b.addHeldUp(p, r)
	}
	b.Next, b.Previous = turn(r, q.From, len(f.Entries), f.Fit)
	return p.show(w, "runs", frame{Title: "Runs", Live: fmt.Sprintf("runs=%d", f.Version), Body: b})
}

// turn gives the addresses of the next and the previous page of a list.
func turn(r *http.Request, from, shown, all int) (next, previous string) {
	at := func(n int) string {
		v := r.URL.Query()
		v.Set("from", strconv.Itoa(n))
		if n == 0 {
			v.Del("from")
		}
		return r.URL.Path + "?" + v.Encode()
	}
	if from+shown < all {
		next = at(from + shown)
	}
	if from > 0 {
		previous = at(max(0, from-perPage))
	}
	return next, previous
}

// Took is how long processes had a run, or have had it.
func (e entry) Took() time.Duration {
	if e.Status == event.Running {
		return e.ran + time.Since(e.since)
	}
	return e.ran
}

// Why is the message without what is beside it: where in the file, and which step.
func (e entry) Why() string {
	if e.Status == event.Interrupted && e.Message == event.Interrupted {
		return "" // the status says so
	}
	if e.Step != "" {
		if _, why, ok := strings.Cut(e.Message, fmt.Sprintf("step %q failed ", e.Step)); ok {
			return why
		}
	}
	return e.Message
}

// ended is how many steps of a run ended in a way.
type ended struct {
	Name, Word string
	Count      int
}

// Done tells how the steps of a run ended, those that were meant to first.
func (e entry) Done() (out []ended) {
	word := "step"
	if e.Kind == workflow.Dataflow.String() {
		word = "call"
	}
	s := e.Steps
	for _, k := range []ended{{event.Succeeded, "succeeded", s.Succeeded}, {event.Degraded, "degraded", s.Degraded}, {event.Recovered, "recovered", s.Recovered},
		{event.Incomplete, "incomplete", s.Incomplete}, {event.Failed, "failed", s.Failed}, {event.Tolerated, "tolerated", s.Tolerated}, {event.Skipped, "skipped", s.Skipped}} {
		if k.Count == 0 {
			continue
		}
		if len(out) == 0 {
			k.Word = diag.Plural(k.Count, word) + " " + k.Word
		}
		out = append(out, k)
	}
	return out
}

// Empty reports whether a map has succeeded without an item.
func (e entry) Empty() bool {
	return e.Kind == workflow.MapReduce.String() && e.Status == event.Succeeded && e.Items.Total == 0
}

// Otherwise tells of the items that ended neither as they were meant to nor as failures.
func (e entry) Otherwise() (out []ended) {
	for _, kind := range event.Kinds {
		if n := e.Items.Of(kind); n != nil && *n > 0 {
			out = append(out, ended{kind, kind, *n})
		}
	}
	return out
}

// Share is a part of the run's items, in percent.
func (e entry) Share(n int) string {
	return strconv.FormatFloat(100*float64(n)/float64(max(1, e.Items.Total)), 'f', 2, 64) + "%"
}
