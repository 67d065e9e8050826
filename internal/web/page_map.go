package web

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/value"
)

// states are the states of an item in the order of a legend, with the names
// that addresses use. An item that waits for a retry is told from one that was
// not begun.
var states = []struct {
	status journal.ItemStatus
	name   string
}{
	{journal.ItemSucceeded, event.Succeeded}, {journal.ItemRunning, event.Running}, {journal.ItemWaiting, timeline.Waiting},
	{journal.ItemHandling, "handling"}, {journal.ItemPending, event.Pending}, {journal.ItemFailed, event.Failed}, {journal.ItemDeadLettered, event.DeadLettered},
	{journal.ItemSkipped, event.Skipped}, {journal.ItemUnchanged, event.Unchanged},
}

type mapBody struct {
	Run      string
	Counts   journal.Counts
	States   []stateCount
	Classes  []classCount
	State    string // the filter
	Class    string
	Find     string
	Fit      int
	From     int
	Items    []itemLine
	Proof    bool // one of them has shown something, or is in the merge queue
	Merging  int  // items whose work waits to be merged
	Next     string
	Previous string
	Due      []dueLine
	Breakers []timeline.Breaker
	Rate     string // what was done in the last minute
	ETA      string
	Rescued  int // items that ended well after a retry
	At       int64
}

type stateCount struct {
	Name  string
	Code  int
	Count int
	Share string
	At    string
	On    bool
	Href  string
}

// dueLine is how many items wait for a time that is near.
type dueLine struct {
	Within string
	Count  int
}

// itemLine is an item in a list.
type itemLine struct {
	Index    int
	ID, Name string
	State    string
	Attempts int
	Class    string
	Message  string
	At       time.Time
	Took     int64
	Proof    string // what it has shown, and the merge of its work; "" where nothing was asked
}

func (p *pages) mapPage(w http.ResponseWriter, r *http.Request, run *run) error {
	q := r.URL.Query()
	b := mapBody{Run: run.id, State: q.Get("state"), Class: q.Get("class"), Find: q.Get("item"), From: numberOf(r, "from", 0)}
	if b.Find != "" {
		return p.findItem(w, r, run, b.Find)
	}
	var indexes []int
	head, err := p.headOf(r, run, func() {
		b.fill(run)
		indexes = b.choose(&run.items)
	})
	if err != nil {
		return err
	}
	if b.Items, err = p.itemLines(r, run, indexes); err != nil {
		return err
	}
	b.Proof = slices.ContainsFunc(b.Items, func(l itemLine) bool { return l.Proof != "" })
	b.Next, b.Previous = turn(r, b.From, len(b.Items), b.Fit)
	return p.show(w, "map", frame{Title: "Map of " + head.Name, Run: head, Live: "map", Body: b})
}

// fill takes what the fold says; run.mu is held.
func (b *mapBody) fill(run *run) {
	t := &run.items
	b.Counts, b.At, b.Rescued, b.Merging = t.tally(), run.seq, t.rescued, len(t.merging)
	at := 0.0
	for _, s := range states {
		n := t.counts[s.status]
		share := float64(n) / float64(max(1, len(t.cells)))
		c := stateCount{Name: s.name, Code: int(s.status), Count: n, Share: percent(share), At: percent(at), On: b.State == s.name}
		at += share
		v := url.Values{}
		if b.Class != "" {
			v.Set("class", b.Class)
		}
		if !c.On {
			v.Set("state", s.name)
		}
		c.Href = "?" + v.Encode()
		b.States = append(b.States, c)
	}
	b.Classes = value.Filter(t.classes, func(c classCount) bool { return c.Count > 0 })
	slices.SortStableFunc(b.Classes, func(x, y classCount) int { return cmp.Compare(y.Count, x.Count) })
	b.Breakers = run.line.Breakers[max(0, len(run.line.Breakers)-8):]
	b.due(t)
	if now := time.Now(); run.held {
		b.ETA = t.eta(now)
		if rate := t.pace.Rate(now, time.Minute); rate > 0 {
			b.Rate = strconv.FormatFloat(rate, 'f', 1, 64)
		}
	}
}

func (b *mapBody) due(t *items) {
	times := []time.Duration{0, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 1 << 62}
	names := []string{"now", "within 10 s", "within a minute", "within 10 minutes", "within an hour", "later"}
	for i, n := range t.due.within(time.Now(), times) {
		if n > 0 {
			b.Due = append(b.Due, dueLine{names[i], n})
		}
	}
}

// choose gives the items of the page; run.mu is held.
func (b *mapBody) choose(t *items) []int {
	state, class := -1, byte(0)
	for _, s := range states {
		if s.name == b.State {
			state = int(s.status)
		}
	}
	if b.Class != "" {
		class = 255
		for i, c := range t.classes {
			if c.Class == b.Class {
				class = byte(i + 1)
			}
		}
	}
	// Those that failed come first, then those whose last attempt failed.
	order := [][]journal.ItemStatus{{journal.ItemFailed, journal.ItemDeadLettered}, {journal.ItemWaiting, journal.ItemHandling},
		{journal.ItemRunning, journal.ItemSucceeded, journal.ItemPending, journal.ItemSkipped, journal.ItemUnchanged}}
	var out []int
	for _, some := range order {
		var wanted [256]bool // cells
		n := 0
		for _, s := range some {
			if state >= 0 && int(s) != state {
				continue
			}
			n += t.counts[s]
			for c := range wanted {
				if statusOf(byte(c)) == s && (class == 0 || byte(c)>>classShift == class) {
					wanted[c] = true
				}
			}
		}
		switch {
		case class > 0:
			n = 0 // how many there are of both is counted
		case b.Fit+n <= b.From, len(out) == perPage:
			b.Fit += n // they are on other pages
			continue
		}
		seen := 0
		for i, c := range t.cells {
			if !wanted[c] {
				continue
			}
			if seen++; b.Fit+seen > b.From && len(out) < perPage {
				out = append(out, i+1)
			}
			if class == 0 && (len(out) == perPage || seen == n) {
				break
			}
		}
		b.Fit += max(n, seen)
	}
	return out
}

// itemLines reads what a list tells of some items: their last events.
func (p *pages) itemLines(r *http.Request, run *run, indexes []int) ([]itemLine, error) {
	out := make([]itemLine, len(indexes))
	var seqs []int64
	var at []int // which line a number is of
	run.mu.Lock()
	for i, index := range indexes {
		out[i] = itemLine{Index: index, State: stateName(run.items.status(index - 1)), Attempts: run.items.triesOf(index - 1)}
		seq := int64(run.items.last[index-1])
		if l, ok := run.items.letters[index]; ok {
			seq = l.seq // what follows may be a note
		}
		if seq > 0 {
			seqs, at = append(seqs, seq), append(at, i)
		}
	}
	verified := run.items.verified
	run.mu.Unlock()
	events, err := run.r.At(r.Context(), seqs)
	if err != nil {
		return nil, err
	}
	var green []event.Event
	if verified > 0 {
		if green, err = run.r.At(r.Context(), []int64{verified}); err != nil {
			return nil, err
		}
	}
	labels := make([]string, len(out))
	for n, e := range events {
		o := &out[at[n]]
		if e.Type == event.ItemStarted || e.Type == event.ItemFinished {
			labels[at[n]] = e.Label
		}
		o.Proof = proofOf(e, green)
		o.ID, o.Class, o.Message, o.At, o.Took = e.Item, e.Class, diag.ClipBytes(e.Message, 300), e.Time, e.DurationMS
	}
	list, err := run.r.ItemsAt(r.Context(), indexes)
	if err != nil {
		return nil, err
	}
	for i := range out {
		it := list[out[i].Index]
		out[i].ID = cmp.Or(out[i].ID, itemID(it, out[i].Index))
		out[i].Name = itemName(labels[i], event.Item{ID: out[i].ID, Data: it.Data})
	}
	return out, nil
}

// proofOf says in a few words what an item has shown, and how its merge stands, by its last
// event and that of the last merge that was verified and is green.
func proofOf(e event.Event, green []event.Event) string {
	type shown struct {
		Evidence *struct{} `json:"evidence"`
		Merge    string    `json:"merge"`
	}
	var d struct {
		shown
		Result shown `json:"result"` // of item_merging
	}
	_ = json.Unmarshal(e.Data, &d) // of another shape, it tells of neither
	var words []string
	switch {
	case e.Class == mapper.ClassEvidence:
		words = append(words, "evidence failed")
	case d.Evidence != nil || d.Result.Evidence != nil:
		words = append(words, "evidence passed")
	}
	switch {
	case e.Type == event.ItemMerging && e.Status == event.Pending:
		var v mapper.Verified
		if len(green) > 0 && json.Unmarshal(green[0].Data, &v) == nil && green[0].Seq > e.Seq && slices.Contains(v.Items, e.Item) {
			words = append(words, "verified")
		} else {
			words = append(words, "waits to be merged")
		}
	case d.Merge != "":
		words = append(words, "merged")
	case e.Type == event.ItemFinished && (e.Class == mapper.ClassMergeCheck || e.Class == "conflict"):
		words = append(words, "merge refused")
	}
	return strings.Join(words, ", ")
}

func stateName(s journal.ItemStatus) string {
	for _, x := range states {
		if x.status == s {
			return x.name
		}
	}
	return event.Pending
}

// findItem leads to the item with an id.
func (p *pages) findItem(w http.ResponseWriter, r *http.Request, run *run, id string) error {
	index, err := run.r.IndexOf(r.Context(), id)
	if err != nil {
		return err
	}
	if n, bad := strconv.Atoi(strings.TrimPrefix(id, "#")); index == 0 && bad == nil && n >= 0 {
		index = event.IndexOf(n)
	}
	if index == 0 {
		return &status{http.StatusNotFound, "The run has no item " + diag.ClipBytes(id, 200) + ".", "Items are known by the ids that the list of the map gives them, and by their numbers, from 0."}
	}
	http.Redirect(w, r, "/runs/"+run.id+"/items/"+strconv.Itoa(event.Number(index)), http.StatusSeeOther)
	return nil
}

// cells gives the grid: one byte an item.
func (p *pages) cells(w http.ResponseWriter, r *http.Request, run *run) error {
	var b []byte
	err := run.look(r.Context(), func() {
		b = slices.Clone(run.items.cells)
	})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(b) // who went away needs no grid
	return nil
}

// maxBuckets is how many points a plot has at most.
const maxBuckets = 600

// plot is what a map did over time.
type plot struct {
	Step    int64      `json:"step"` // seconds a point
	Time    []int64    `json:"time"` // seconds since 1970
	Good    []float64  `json:"good"` // a second
	Failed  []float64  `json:"failed"`
	Retried []float64  `json:"retried"`
	Bands   []plotBand `json:"bands"`
}

// plotBand is a time in which a breaker was open, or all agents paused.
type plotBand struct {
	From int64  `json:"from"`
	To   int64  `json:"to"`
	Kind string `json:"kind"` // breaker, pause
	Text string `json:"text"`
}

// series gives what a map did over time.
func (p *pages) series(w http.ResponseWriter, r *http.Request, run *run) error {
	var out plot
	if err := run.look(r.Context(), func() { out = plotOf(run) }); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(out)
}

func plotOf(run *run) (out plot) {
	rate := run.items.rate
	if len(rate) == 0 {
		return plot{Step: 1}
	}
	first, last := rate[0].second, rate[len(rate)-1].second
	out.Step = (last-first)/maxBuckets + 1
	n := int((last-first)/out.Step) + 1
	out.Time, out.Good, out.Failed, out.Retried = make([]int64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		out.Time[i] = first + int64(i)*out.Step
	}
	for _, b := range rate {
		i := (b.second - first) / out.Step
		out.Good[i] += float64(b.good) / float64(out.Step)
		out.Failed[i] += float64(b.failed) / float64(out.Step)
		out.Retried[i] += float64(b.retried) / float64(out.Step)
	}
	open := map[string]time.Time{}
	for _, b := range run.line.Breakers {
		if from, ok := open[b.Name]; ok && b.To != "open" {
			out.Bands = append(out.Bands, plotBand{from.Unix(), b.At.Unix(), "breaker", "breaker " + b.Name + " was open"})
			delete(open, b.Name)
		}
		if b.To == "open" {
			open[b.Name] = b.At
		}
	}
	for name, from := range open {
		out.Bands = append(out.Bands, plotBand{from.Unix(), run.line.Latest.Unix(), "breaker", "breaker " + name + " was open"})
	}
	for _, w := range run.line.Pauses {
		out.Bands = append(out.Bands, plotBand{w.From.Unix(), w.To.Unix(), "pause", "a rate limit held back all agents"})
	}
	return out
}

func percent(f float64) string { return strconv.FormatFloat(100*f, 'f', 3, 64) + "%" }
