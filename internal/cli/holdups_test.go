package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/telemetry"
	"github.com/bide-dev/bide/internal/web"
)

// Whoever tells what holds up a run says the same sentence: show, status, the live display,
// the dashboard, and the log of telemetry, whose metrics count the run.
func TestAllSayTheSameOfWhatHoldsUpARun(t *testing.T) {
	// What happened, and when it is tried again, are of the same second in local time.
	then := time.Now().Add(-time.Minute).Truncate(time.Second)
	next := then.Add(10 * time.Hour)
	date, clock := func(at time.Time) string { return at.Local().Format(time.DateTime) }, func(at time.Time) string { return at.Local().Format(time.TimeOnly) }
	hold := func(more string) json.RawMessage {
		b, err := json.Marshal(map[string]any{"message": "connection refused", "items": 3, "attempts": 4, "since": then, "until": next})
		if err != nil {
			t.Fatal(err)
		}
		return json.RawMessage(strings.TrimSuffix(string(b), "}") + more + "}")
	}
	pause := func(more string) json.RawMessage {
		b, err := json.Marshal(event.Pause{Until: next, Since: then, Streak: 1})
		if err != nil {
			t.Fatal(err)
		}
		return json.RawMessage(strings.TrimSuffix(string(b), "}") + more + "}")
	}
	until, err := json.Marshal(next)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		event  event.Event
		want   string
		log    bool   // telemetry says it in this sentence
		metric string // and counts it for this
	}{
		"a hold": {event.Event{Type: event.HoldStarted, DelayMS: 36_000_000, Data: hold("")},
			`the map is held: 3 items failed with "connection refused", since ` + date(then) + "; one item is tried at " + clock(next) + "; bide control RUN probe tries one now, continue ends the hold", true, "same_error"},
		"probes that succeed": {event.Event{Type: event.HoldProbe, DelayMS: 36_000_000, Data: hold(`,"good":1,"close":3`)},
			`the map is held: 3 items failed with "connection refused", since ` + date(then) + "; 1 of 3 probes succeeded; one item is tried at " + clock(next) + "; bide control RUN probe tries one now, continue ends the hold", false, ""},
		"canaries": {event.Event{Type: event.HoldStarted, DelayMS: 36_000_000, Data: hold(`,"canary":true`)},
			`the map is held: 3 of its first items failed, the last with "connection refused", since ` + date(then) + "; one item is tried at " + clock(next) + "; bide control RUN probe tries one now, continue ends the hold", true, "same_error"},
		"a merge queue": {event.Event{Type: event.HoldStarted, Label: event.MergeQueue, DelayMS: 36_000_000, Data: hold(`,"queue":true`)},
			"the merge queue is held: what is merged so far fails the verify, and no item is to blame: connection refused, since " + date(then) + "; it is verified again at " + clock(next) + "; bide control RUN probe verifies it now, continue ends the hold", true, "merge_queue"},
		"somebody": {event.Event{Type: event.RunControlled, Label: journal.Pause, Message: "another process asked for it: the run is paused"},
			"paused since " + date(then) + ": nothing new starts until bide control RUN continue", false, "paused"},
		"a rate limit": {event.Event{Type: event.RunPaused, DelayMS: 36_000_000, Data: pause("")},
			"agents are held back by a rate limit until " + date(next) + "; bide control RUN retry-now asks them now", true, ""},
		"a chain that is down for longer than max_wait": {event.Event{Type: event.RunPaused, DelayMS: 36_000_000, Data: pause(`,"down":true`)},
			"agents are down, and not asked until " + date(next) + "; bide control RUN retry-now asks them now", true, ""},
		"a chain whose agents are at their limits": {event.Event{Type: event.AgentPaused, Label: "two", DelayMS: 36_000_000, Data: pause(`,"chain":{"name":"coder","until":` + string(until) + `}`)},
			"the agents of coder are held back by a rate limit until " + date(next) + "; bide control RUN retry-now asks them now", false, ""},
		"a chain whose agents are down": {event.Event{Type: event.AgentPaused, Label: "two", DelayMS: 36_000_000, Data: pause(`,"down":true,"chain":{"name":"coder","until":` + string(until) + `,"down":true}`)},
			"the agents of coder are down, and not asked until " + date(next) + "; bide control RUN retry-now asks them now", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			t.Setenv("BIDE_HOME", home)
			st, err := journal.OpenStore(home)
			if err != nil {
				t.Fatal(err)
			}
			j, err := st.Create(journal.Header{Name: "w", Kind: "mapreduce", Path: "/w.yml"})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := j.Close(); err != nil {
					t.Error(err)
				}
			}()
			b := newBoard()
			var logs []string
			fold := telemetry.Fold{Metrics: telemetry.NewMetrics(then), Log: func(r telemetry.Record) { logs = append(logs, r.Body) }}
			list := []event.Event{{Type: event.RunStarted}, {Type: event.ItemsReady, Total: 6}, {Type: event.PhaseStarted, Phase: "map", Total: 6}, c.event}
			for i := range list {
				list[i].Time, list[i].Run = then, j.Run()
				b.take(list[i])
				fold.Event(list[i])
			}
			if err := j.RecordAll(list); err != nil {
				t.Fatal(err)
			}
			if err := j.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := strings.Replace(c.want, "RUN", journal.ShortRun(j.Run()), 1)
			says := func(who, text string) {
				t.Helper()
				// What a terminal has in two lines is one sentence, and a page begins it with a capital.
				if text = strings.Join(strings.Fields(text), " "); !strings.Contains(text, want[1:]) {
					t.Errorf("%s does not say %q:\n%s", who, want, text)
				}
			}
			says("show", ran(t, "show", j.Run()))
			says("status", ran(t, "status"))
			says("the live display", strings.Join(b.lines(then.Add(time.Second), 80, 50), "\n"))
			says("the page", page(t, st, "/runs/"+j.Run()))
			if c.log {
				says("the log", strings.Join(logs, "\n"))
			}
			var metrics bytes.Buffer
			if err := fold.Metrics.WritePrometheus(&metrics); err != nil {
				t.Fatal(err)
			}
			if line := `bide_hold_reason="` + c.metric + `"} 1`; c.metric != "" && !strings.Contains(metrics.String(), line) {
				t.Errorf("no metric has %s:\n%s", line, metrics.String())
			}
		})
	}
}

// ran gives what a command prints.
func ran(t *testing.T, args ...string) string {
	t.Helper()
	var out, errw bytes.Buffer
	if status := Main(args, strings.NewReader(""), &out, &errw); status != 0 {
		t.Fatalf("%q: exit status %d: %s", args, status, errw.String())
	}
	return out.String()
}

// page gives the text of a page of the dashboard.
func page(t *testing.T, st *journal.Store, path string) string {
	t.Helper()
	s, err := web.New(web.Options{Store: st, Waiting: func(ctx context.Context) (web.Waiting, error) { return waiting(ctx, st) }})
	if err != nil {
		t.Fatal(err)
	}
	return html.UnescapeString(visit(t, s).page(path))
}

// visitor is a browser that was let in.
type visitor struct {
	t       *testing.T
	client  http.Client
	address string
}

// visit serves until the test ends, and lets a browser in.
func visit(t *testing.T, s *web.Server) *visitor {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{t: t, client: http.Client{Jar: jar}}
	entrance := s.URL("/")
	v.address, _, _ = strings.Cut(entrance, "/?")
	v.get(entrance)
	return v
}

// page gives a page as it is sent.
func (v *visitor) page(path string) string {
	v.t.Helper()
	return v.get(v.address + path)
}

func (v *visitor) get(address string) string {
	v.t.Helper()
	resp, err := v.client.Get(address)
	if err != nil {
		v.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		v.t.Fatal(err)
	}
	return string(text)
}

// until asks for a page until it has a text, and gives it.
func (v *visitor) until(path, text string) string {
	v.t.Helper()
	for late := time.After(time.Minute); ; {
		body := v.page(path)
		if strings.Contains(body, text) {
			return body
		}
		select {
		case <-late:
			v.t.Fatalf("%s never says %q:\n%s", path, text, v.text(body))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

var (
	lineEnds = regexp.MustCompile(`</(h1|h2|p|tr|li)>`)
	cellEnds = regexp.MustCompile(`</(th|td)>`)
	tags     = regexp.MustCompile(`<[^>]*>`)
)

// text is what a page says, without what is around it: a line for each sentence and row.
func (v *visitor) text(body string) string {
	_, body, _ = strings.Cut(body, "<main")
	body, _, _ = strings.Cut("<main"+body, "</main>")
	body = tags.ReplaceAllString(cellEnds.ReplaceAllString(lineEnds.ReplaceAllString(strings.Join(strings.Fields(body), " "), "\n"), " "), "")
	var lines []string
	for line := range strings.Lines(body) {
		if line = strings.Join(strings.Fields(html.UnescapeString(line)), " "); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
