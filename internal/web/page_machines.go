package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
)

// seen is how workers and runs of the Temporal server stood when it was asked last.
type seen struct {
	cluster.State
	Err   error
	At    time.Time // of the answer; zero: there is none that counts
	Reads bool      // it is being asked
}

const (
	machinesEvery = 5 * time.Second        // the server is asked again, at most, and only while somebody looks
	machinesFirst = 250 * time.Millisecond // that the page waits for an answer; others do not wait
	machinesWait  = 20 * time.Second       // that the server may take
	machinesKept  = 30 * time.Second       // that an answer tells how things are
)

// onMachines reports whether this machine has to do with Temporal: its settings name a server,
// or a run is on many machines.
func (s *Server) onMachines() bool {
	return s.opt.Machines != nil && (s.opt.OnMachines || s.list.onMachines() > 0)
}

// machinesSeen gives what is known of the server, and has it asked where that is old: once for
// all who look. It waits for an answer for up to a time. Options.Machines is not nil.
func (s *Server) machinesSeen(ctx context.Context, wait time.Duration) seen {
	m := &s.machines
	old := func() bool { return s.ends.Err() == nil && (m.made.IsZero() || time.Since(m.made) > s.machinesEvery) }
	known, err, reads := m.look(ctx, wait, old, s.askMachines, nil)
	if reads && time.Since(known.At) > machinesKept {
		known, err = seen{}, nil
	}
	known.Err, known.Reads = err, reads
	return known
}

func (s *Server) askMachines() (seen, error) {
	ctx, cancel := context.WithTimeout(s.ends, s.machinesWait)
	defer cancel()
	state, err := s.opt.Machines(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("the Temporal server has not answered within %v; TEMPORAL_ADDRESS names another", s.machinesWait)
	}
	return seen{State: state, At: time.Now()}, err
}

// Every is after how many seconds a page that shows it is asked for again while somebody looks
// at it.
func (m *seen) Every() int {
	if m.Reads {
		return 1
	}
	return int(machinesEvery / time.Second)
}

// Why says why the server cannot be asked.
func (m *seen) Why() string {
	text := strings.TrimRight(m.Err.Error(), ".")
	if !strings.HasSuffix(text, "?") {
		text += "."
	}
	return "Temporal cannot be asked: " + text
}

// heldUp says what holds up a run, as far as the server tells; nil where it tells of nothing.
func (m *seen) heldUp(run string) []string {
	for _, r := range m.Runs {
		if r.Run == run && r.Trouble != "" {
			return []string{r.Says()}
		}
	}
	return nil
}

// missing says that a run which does not end is not in progress on the server, nor was heard of
// for some time; nil where it is, or where nobody knows.
func (m *seen) missing(run string, latest time.Time) []string {
	if m.Err != nil || m.At.IsZero() || m.At.Sub(latest) < machinesKept || slices.ContainsFunc(m.Runs, func(r cluster.SeenRun) bool { return r.Run == run }) {
		return nil
	}
	return []string{fmt.Sprintf("not in progress on the Temporal server %s (namespace %s): somebody or a time limit has ended it there, or it is on another server. `bide resume` continues with what is recorded", m.Address, m.Namespace)}
}

type machinesBody struct {
	*seen
	Now  time.Time
	here map[string]string // the names of the runs that this machine knows, by id
}

// Name gives the name of a run; "" where this machine does not know it.
func (b machinesBody) Name(run string) string { return b.here[run] }

func (p *pages) machinesPage(w http.ResponseWriter, r *http.Request) error {
	if !p.onMachines() {
		return &status{http.StatusNotFound, "No run of this machine is on many machines, and nothing names a Temporal server.", "`bide docs cluster` tells how one file runs on many machines."}
	}
	m := p.machinesSeen(r.Context(), machinesFirst)
	b := machinesBody{seen: &m, Now: time.Now(), here: map[string]string{}}
	for _, run := range m.Runs {
		if e := p.list.entry(run.Run); e != nil {
			b.here[run.Run] = e.Name
		}
	}
	return p.show(w, "machines", frame{Title: "Machines", Body: b})
}
