package web

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/value"
)

// shares are answers that are the same for all who ask for them: however many watch a
// run, a page of it is made once for each state that the run is in.
type shares struct {
	mu   sync.Mutex
	made map[string]*shared // by address: the last one
}

// shared is one answer; who finds it before it is there waits for it.
type shared struct {
	state  string        // of the run
	there  chan struct{} // closed when all below is set
	at     time.Time
	ok     bool // else it is nobody else's: it failed, or its asker went away
	code   int
	header http.Header
	body   bytes.Buffer
}

func (s *shared) Header() http.Header         { return s.header }
func (s *shared) WriteHeader(code int)        { s.code = code }
func (s *shared) Write(b []byte) (int, error) { return s.body.Write(b) }

// sharedFor is how long an answer is given again while the run's state is the same: it
// has times that grow.
const sharedFor = time.Second

// share makes a page of a run once for all who ask for it at a time.
func (p *pages) share(f page) page {
	return func(w http.ResponseWriter, r *http.Request, run *run) error {
		var at int64
		var action told
		if err := run.look(r.Context(), func() { at, action = run.position(), p.actions.tells(run) }); err != nil {
			return err
		}
		s, ours := p.shares.take(r.URL.RequestURI(), fmt.Sprint(at, action))
		if ours {
			if err := s.make(f, r, run); err != nil {
				return err
			}
		}
		select {
		case <-s.there:
		case <-r.Context().Done():
			return r.Context().Err()
		}
		if !s.ok && !ours {
			return f(w, r, run)
		}
		maps.Copy(w.Header(), s.header)
		w.WriteHeader(s.code)
		_, _ = w.Write(s.body.Bytes()) // who went away needs no page
		return nil
	}
}

// make makes the answer, and lets those who wait for it continue.
func (s *shared) make(f page, r *http.Request, run *run) error {
	defer close(s.there)
	err := f(s, r, run)
	s.ok, s.at = err == nil && r.Context().Err() == nil, time.Now()
	return err
}

// take gives the answer for an address while the run is in a state, and whether the caller
// is to make it.
func (s *shares) take(address, state string) (*shared, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, old := range s.made {
		select {
		case <-old.there:
			if !old.ok || time.Since(old.at) > sharedFor {
				delete(s.made, k)
			}
		default:
		}
	}
	if have := s.made[address]; have != nil && have.state == state {
		return have, false
	}
	out := &shared{state: state, there: make(chan struct{}), code: http.StatusOK, header: http.Header{}}
	value.Put(&s.made, address, out)
	return out, true
}
