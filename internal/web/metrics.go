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
	"github.com/bide-dev/bide/internal/telemetry"
)

// meter adds up what the runs do that go on while the server does, for
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
	fold telemetry.Fold
	next int64 // the event to read next
	over bool
}

func newMeter(st *journal.Store, now time.Time) *meter {
	return &meter{st: st, since: now, metrics: telemetry.NewMetrics(now), runs: map[string]*metered{}}
}

// refresh reads what is new in runs that were not over when the server began.
func (m *meter) refresh(ctx context.Context, entries []*entry) error {
	for _, e := range entries {
		if !e.Finished.IsZero() && e.Finished.Before(m.since) && m.runs[e.ID] == nil {
			continue
		}
		r := m.runs[e.ID]
		if r == nil {
			r = &metered{next: 1}
			r.fold.Metrics = m.metrics
			m.runs[e.ID] = r
		}
		if r.over && !e.Finished.IsZero() {
			continue
		}
		if err := m.read(ctx, e.ID, r); err != nil {
			return err
		}
	}
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
		r.next, r.over = e.Seq+1, e.Type == event.RunFinished
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
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_ = s.meter.metrics.WritePrometheus(w) // who asked has gone
}

// bearer says whether a request has the token of those who read metrics.
func (g *guard) bearer(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && g.metrics != "" && r.URL.Path == "/metrics" && subtle.ConstantTimeCompare([]byte(token), []byte(g.metrics)) == 1
}
