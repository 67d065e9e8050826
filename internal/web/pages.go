package web

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/simulate"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/workflow"
)

//go:embed pages/*.html
var templates embed.FS

// pages answers requests.
type pages struct {
	*Server
	assets *assets
}

// page answers a request that is about a run.
type page func(w http.ResponseWriter, r *http.Request, run *run) error

// status is an error with the HTTP status that tells it.
type status struct {
	code       int
	what, help string
}

func (s *status) Error() string { return s.what }

// frame is what every page has.
type frame struct {
	Title  string
	Run    *runHead // nil on pages that are not about one run
	Site   []siteLink
	Tabs   []tab // of a page of a run
	CSS    string
	JS     string
	Worker string
	// Live is the topic of the stream that changes this page, with where it
	// stood when the page was made: what came after is told by the stream. Of a
	// page about a run, show adds which and where.
	Live string
	Body any
}

// set is the parsed templates, one set a page, so that each has its own body.
// They are parsed when the first is shown: other commands start without.
var set = sync.OnceValue(func() map[string]*template.Template {
	base := template.Must(template.New("").Funcs(helpers).ParseFS(templates, "pages/base.html", "pages/parts.html"))
	files, err := templates.ReadDir("pages")
	if err != nil {
		panic("web: " + err.Error()) // they are part of the program
	}
	out := map[string]*template.Template{}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".html")
		out[name] = template.Must(template.Must(base.Clone()).ParseFS(templates, "pages/"+f.Name()))
	}
	return out
})

// show answers with a page.
func (p *pages) show(w http.ResponseWriter, name string, f frame) error {
	if f.Run != nil && f.Live != "" {
		f.Live = fmt.Sprintf("%s:%s=%d", f.Live, f.Run.ID, f.Run.At)
	}
	if f.Run != nil {
		f.Tabs = tabs(f.Run, name)
	}
	f.Site = links(p.Server, name)
	f.CSS, f.JS, f.Worker = p.assets.path("app.css"), p.assets.path("app.js"), p.assets.path("worker.js")
	return p.write(w, http.StatusOK, name, "base", f)
}

func (p *pages) write(w http.ResponseWriter, code int, name, part string, data any) error {
	var b bytes.Buffer
	if err := set()[name].ExecuteTemplate(&b, part, data); err != nil {
		return fmt.Errorf("the page %s cannot be made: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(diag.Untwisted(b.Bytes())) // who went away needs no page
	return nil
}

// ofRun finds the run that a request is about, and answers with what went wrong.
func (p *pages) ofRun(f page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := p.opt.Store.Find(r.PathValue("run"))
		if err == nil && id != r.PathValue("run") && r.Method == http.MethodGet {
			// The beginning of an id is as good as the id; the address gets whole.
			to := url.URL{Path: strings.Replace(r.URL.Path, "/runs/"+r.PathValue("run"), "/runs/"+id, 1), RawQuery: r.URL.RawQuery}
			http.Redirect(w, r, to.String(), http.StatusSeeOther)
			return
		}
		if err == nil {
			err = p.runs.with(id, func(run *run) error { return f(w, r, run) })
		}
		p.problem(w, r, err)
	}
}

// problem answers with what went wrong, if something did.
func (p *pages) problem(w http.ResponseWriter, r *http.Request, err error) {
	var missing *journal.NotFoundError
	var s *status
	switch {
	case err == nil, errors.Is(err, context.Canceled):
	case errors.As(err, &s):
		p.fail(w, r, s.code, s.what, s.help)
	case errors.As(err, &missing):
		p.fail(w, r, http.StatusNotFound, "There is no run "+diag.ClipBytes(missing.Run, 100)+".", "It may have been removed by `bide clean`. All runs are in the list.")
	default:
		p.fail(w, r, http.StatusInternalServerError, "This page cannot be shown: "+err.Error()+".", "`bide show` in the terminal may tell more.")
	}
}

// fail answers with a page that says what is wrong and what to do.
func (p *pages) fail(w http.ResponseWriter, _ *http.Request, code int, what, help string) {
	f := frame{Title: http.StatusText(code), Site: links(nil, ""), CSS: p.assets.path("app.css"), JS: p.assets.path("app.js"), Body: struct {
		Code       int
		What, Help string
	}{code, what, help}}
	if err := p.write(w, code, "message", "base", f); err != nil {
		http.Error(w, what, code)
	}
}

// runHead is what the pages of a run have at their top.
type runHead struct {
	ID, Name, Status, Now string
	Path, Dir, Kind       string
	Started, Ended        time.Time
	Took                  time.Duration
	Items                 journal.Counts
	Work                  string // how much of the items is done
	Letters               int
	Pipeline              bool
	Held                  bool  // a process has it
	At                    int64 // see run.position
	CanResume, CanRetry   bool
	CanMerge              bool
	Lives                 int
	Params                []journal.Given
	Cost                  string // of agents
	ETA                   string // of the map
	Changes               []string
	Answer                *answer // on the page that a run opens on
	CanControl, IsMap     bool
	Paused                bool
	AtOnce                int    // items; 0 where that is not known
	Retries               int    // that wait
	OnHold                bool   // its map or its merge queue is held, as the same thing kept failing
	Limited               bool   // agents are not asked, because of a rate limit
	Action                told   // what was asked for last, and how that went
	Here                  string // the address of the page
	Every                 int    // after how many seconds the page is asked for again, beside when it changes; 0: never
}

// headOf tells it, and calls f, if it is not nil, with the run as it was then.
func (p *pages) headOf(r *http.Request, run *run, f func()) (head *runHead, err error) {
	err = run.look(r.Context(), func() {
		head = p.head(run)
		head.Here = r.URL.RequestURI()
		if f != nil {
			f()
		}
	})
	return head, err
}

// head tells it; run.mu is held.
func (p *pages) head(run *run) *runHead {
	h, t := run.r.Header(), run.line
	now := time.Now()
	items := run.tally()
	out := &runHead{
		ID: run.id, Name: t.Name, Status: t.Status, Path: h.Path, Dir: h.Dir, Kind: h.Kind, Started: t.Started, Ended: t.Finished,
		Items: items, Letters: len(run.items.letters), Pipeline: h.Kind == "pipeline", Held: run.held, At: run.position(), Lives: len(t.Lives), Changes: slices.Clone(t.Changes), Params: given(h),
		IsMap: h.Kind == workflow.MapReduce.String(), Paused: !t.Holdups.Paused.IsZero(), Retries: run.items.due.len(), Limited: t.Holdups.AgentsText("", now) != "", OnHold: t.Holdups.Map.On() || t.Holdups.Queue.On(), AtOnce: t.AtOnce(),
		Work: timeline.Done(items.Succeeded+items.Unchanged, items.Total, items.Failed, items.Skipped, items.Unchanged, items.KindCounts),
		Now:  t.Now(journal.ShortRun(run.id), now, items, run.items.due.first()),
	}
	out.Name = cmp.Or(h.Title(), filepath.Base(h.Path))
	if usd := t.Usage["cost_usd"]; usd > 0 {
		out.Cost = fmt.Sprintf("$%.2f", usd)
	}
	if t.Status == event.Running && run.held {
		out.ETA = run.items.eta(now)
	}
	out.Took = t.Took(now)
	if !p.opt.ReadOnly {
		out.CanResume = !run.held && (t.Status == event.Interrupted || t.Status == event.Failed)
		out.CanRetry = out.Letters > 0
		out.CanMerge = !run.held
		out.CanControl = !out.Pipeline && (run.held || out.Paused && out.CanResume)
	} else {
		out.Held = false
	}
	out.Action = p.actions.tells(run)
	return out
}

// RetriesAll reports whether the head has a button for all dead letters: where the one cause
// of all of them is below it, the button beside that does the same.
func (h *runHead) RetriesAll() bool {
	if h.Answer != nil && len(h.Answer.Causes) == 1 && h.Answer.Causes[0].Group != "" && h.Answer.Causes[0].Count == h.Letters {
		return false
	}
	return h.CanRetry
}

// prose is a text for a person in which what is between backticks is code.
func prose(text string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		if part = template.HTMLEscapeString(part); i%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		b.WriteString(part)
	}
	return template.HTML(b.String())
}

// capital is a text as a sentence of its own begins.
func capital(text string) string {
	first, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[n:]
}

// between is from the one to the other, or the one that both are.
func between(from, to string) string {
	if from == to {
		return from
	}
	return from + " to " + to
}

// failedAfter is what a page says where its body tells the error.
func (h *runHead) failedAfter() string { return "It failed after " + timeline.Short(h.Took) + "." }

var helpers = template.FuncMap{
	"words":   words,
	"prose":   prose,
	"capital": capital,
	"between": between,
	"sign":    timeline.Sign,
	"dur":     timeline.Short,
	"ms":      func(n int64) string { return timeline.Short(time.Duration(n) * time.Millisecond) },
	"num":     timeline.Number,
	"no":      event.Number,
	"when":    func(t time.Time) string { return t.Local().Format(time.DateTime) },
	"clock":   func(t time.Time) string { return t.Local().Format("15:04:05.000") },
	"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"percent": percent,
	"plural":  diag.Plural,
	"span":    simulate.Span,
	"short":   func(id string) string { return id[max(0, len(id)-6):] },
	"clip":    diag.ClipBytes,
	"add":     func(a, b int) int { return a + b },
	"query":   func(s string) string { return url.QueryEscape(s) },
	"list":    func(v ...any) []any { return v },
	"source":  func(s string) string { return sourceNames[s] },
	"sub":     func(a, b float64) float64 { return a - b },
	"tick":    func(d time.Duration) string { return "+" + timeline.Short(d) },
	"bytes":   diag.Bytes,
	"times":   func(n int) []struct{} { return make([]struct{}, n) },
}

// words is a status as a person reads it.
func words(status string) string { return strings.ReplaceAll(status, "_", " ") }

// sourceNames are the sources of waits in the words of a legend.
var sourceNames = map[string]string{
	event.FromPolicy: "retry policy", event.FromRetryAfter: "asked for by the other side", event.FromRateLimit: "rate limit",
	event.FromLimit: "limit of rate or concurrency", event.FromBudget: "budget",
}

// numberOf is a number out of the address; def where there is none.
func numberOf(r *http.Request, name string, def int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 0 {
		return def
	}
	return n
}
