package web

import (
	"context"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/telemetry"
)

// meter adds up what runs do while the server is running, for
// Prometheus. Events are read when somebody asks, each once.
type meter struct {
	st    *journal.Store
	since time.Time

	mu      sync.Mutex
	metrics *telemetry.Metrics
	runs    map[string]*metered
}

// metered is one run.
type metered struct {
	fold  telemetry.Fold
	next  int64 // the event to read next
	stamp stamp // of the files when they were read last
	bad   bool  // they could not be read
}

func newMeter(st *journal.Store, now time.Time) *meter {
	return &meter{st: st, since: now, metrics: telemetry.NewMetrics(now), runs: map[string]*metered{}}
}

// refresh reads what is new in runs that were not over when the server began. A
// run that cannot be read is counted as that.
func (m *meter) refresh(ctx context.Context, entries []*entry) error {
	unreadables := 0
	for _, e := range entries {
		if e.Status == unreadable {
			unreadables++
			continue
		}
		if m.runs[e.ID] == nil {
			if e.Status != event.Running && e.Latest.Before(m.since) {
				continue
			}
			r := &metered{next: 1}
			r.fold.Metrics = m.metrics
			m.runs[e.ID] = r
		}
		r := m.runs[e.ID]
		if e.Status == event.Running || r.stamp != e.stamp {
			r.stamp = e.stamp
			err := m.read(ctx, e.ID, r)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.bad = err != nil
		}
		if e.Status == event.Interrupted {
			r.fold.Gone()
		}
		if r.bad {
			unreadables++
		}
	}
	m.metrics.Unreadable(unreadables)
	return nil
}

func (m *meter) read(ctx context.Context, id string, r *metered) error {
	j, err := m.st.Read(id)
	if err != nil {
		return err
	}
	defer j.Close()
	for e, err := range j.Events(ctx, r.next, journal.EventFilter{}) {
		if err != nil {
			return err
		}
		r.fold.Event(e)
		r.next = e.Seq + 1
	}
	return nil
}

// serveMetrics answers in Prometheus' text format.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	s.meter.mu.Lock()
	defer s.meter.mu.Unlock()
	if err := s.meter.refresh(r.Context(), s.list.all()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	list, _ := limits.Snapshot(s.meter.st.Dir) // what cannot be read is not told; bide limits says why
	s.meter.metrics.Limits(list, time.Now())
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_ = s.meter.metrics.WritePrometheus(w) // who asked has gone
}

// bearer says whether a request has the token of those who read metrics.
func (g *guard) bearer(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && g.metrics != "" && r.URL.Path == "/metrics" && subtle.ConstantTimeCompare([]byte(token), []byte(g.metrics)) == 1
}
