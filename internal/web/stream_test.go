package web

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// pipes is a listener whose connections hold nothing on the way to who does not
// read.
type pipes struct {
	net.Listener
	dialled chan net.Conn
	closed  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialled:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return p.Listener.Close()
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.dialled <- theirs
	return ours, nil
}

// TestSlowReaderIsDropped: who does not read is dropped, holds nobody back
// meanwhile, and is told all that it missed when it comes back with the last id
// that it had.
func TestSlowReaderIsDropped(t *testing.T) {
	t.Parallel()
	st, err := journal.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const items = 10_000
	j, err := st.Create(journal.Header{Name: "m", Kind: "mapreduce"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	events := []event.Event{{Type: event.RunStarted}, {Type: event.ItemsReady, Total: items}}
	for i := 1; i <= items; i++ {
		events = append(events, event.Event{Type: event.ItemStarted, Index: i, Attempt: 1})
	}
	for _, e := range events {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	s.patience = 500 * time.Millisecond // in which even a busy machine reads the head of the answer
	pages, err := s.handler()
	if err != nil {
		t.Fatal(err)
	}
	dropped := make(chan struct{}, 4)
	h := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(w, r)
		if r.URL.Path == "/stream" {
			dropped <- struct{}{}
		}
	})}
	ended := make(chan error, 1)
	line := &pipes{s.ln, make(chan net.Conn), make(chan struct{})}
	go func() { ended <- h.Serve(line) }()
	defer func() {
		s.end()
		if err := errors.Join(h.Close(), s.runs.close()); err != nil {
			t.Error(err)
		}
		<-ended
	}()
	in := &served{Server: s, t: t, store: st, in: browser(t)}
	in.in.Transport = &http.Transport{DialContext: line.dial, DisableKeepAlives: true}
	in.letIn(s.URL("/"))

	topic := "map:" + j.Run()
	open := func(last string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, in.at("/stream?topics="+topic), nil)
		if err != nil {
			t.Fatal(err)
		}
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		res, err := in.in.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	slow := open("")
	defer slow.Body.Close()
	<-dropped                // nothing was read of it
	s.patience = time.Minute // for those who read
	if text, err := io.ReadAll(slow.Body); strings.Contains(string(text), "\n\n") {
		t.Errorf("the slow reader got a whole message of %d bytes (%v): it was not slow", len(text), err)
	}
	if body := in.page("/runs/" + j.Run() + "/map"); !strings.Contains(body, "running") {
		t.Error("others are not served any more")
	}
	// It comes back with what it had: nothing; and later with all.
	id, told := message(t, open(""))
	if len(told) != items || told[0] != 1 || told[items-1] != items {
		t.Fatalf("it is told of %d items", len(told))
	}
	if err := j.Append(event.Event{Type: event.ItemFinished, Index: 77, Status: event.Succeeded, Attempts: 1}); err != nil {
		t.Fatal(err)
	}
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, told := message(t, open(id)); len(told) != 1 || told[0] != 77 {
		t.Errorf("after %s it is told of %d items", id, len(told))
	}
}

// message is the first message of a stream that tells of items: its id, and
// their numbers.
func message(t *testing.T, res *http.Response) (id string, items []int) {
	t.Helper()
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			id = v
		}
		v, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var m update
		if err := json.Unmarshal([]byte(v), &m); err != nil {
			t.Fatal(err)
		}
		b, err := base64.StdEncoding.DecodeString(m.Cells)
		if err != nil {
			t.Fatal(err)
		}
		for at := -1; len(b) > 0; {
			step, n := binary.Uvarint(b)
			at += int(step)
			items = append(items, at+1)
			b = b[n+1:]
		}
		if len(items) > 0 {
			return id, items
		}
	}
	t.Fatalf("the stream ended: %v", lines.Err())
	return "", nil
}

// TestAMapIsToldWhileItGoesOn: what is sent of a run is of one moment, while its
// events come in and others look. The race detector watches.
func TestAMapIsToldWhileItGoesOn(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	j, err := s.store.Create(journal.Header{Name: "m", Kind: "mapreduce"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	put := func(list ...event.Event) {
		for _, e := range list {
			if err := j.Append(e); err != nil {
				t.Error(err)
			}
		}
		if err := j.Sync(t.Context()); err != nil {
			t.Error(err)
		}
	}
	const items = 300
	put(event.Event{Type: event.RunStarted}, event.Event{Type: event.ItemsReady, Total: items},
		event.Event{Type: event.StepStarted, Step: "commands[0]"}, event.Event{Type: event.AttemptStarted, Step: "commands[0]", Attempt: 1},
		event.Event{Type: event.AttemptFailed, Step: "commands[0]", Attempt: 1, Data: json.RawMessage(`{"stderr":"no"}`)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		for i := 1; i <= items; i++ {
			put(event.Event{Type: event.ItemStarted, Index: i, Attempt: 1}, event.Event{Type: event.ItemFinished, Index: i, Status: event.Succeeded, Attempts: 1})
		}
	})
	wg.Go(func() { // as another reader's page does
		for ctx.Err() == nil {
			_ = s.runs.with(j.Run(), func(r *run) error {
				r.mu.Lock()
				r.read = time.Time{} // nothing is fresh
				r.mu.Unlock()
				return r.look(t.Context(), func() {})
			})
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			s.page("/runs/" + j.Run() + "/log?path=commands%5B0%5D&attempt=1&stream=stderr")
		}
	})
	tell := &subscriber{p: &pages{Server: s.Server}, at: map[string]int64{}}
	for ctx.Err() == nil {
		m := update{}
		_ = s.runs.with(j.Run(), func(r *run) error { return r.look(t.Context(), func() { tell.tellRun("map", r, &m) }) })
		sum := 0
		for _, n := range m.Counts {
			sum += n
		}
		if sum != m.Total {
			t.Errorf("the counts %v are not of %d items", m.Counts, m.Total)
		}
	}
	wg.Wait()
}
