package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/diag"
)

// State is the state of the workers and runs of a server, as bide-temporal reports it.
type State struct {
	Address   string `json:"address"`
	Namespace string `json:"namespace"`
	Protocol  int    `json:"protocol"`
	// Current is the deployment version on which runs begin; "" means workers without a
	// version.
	Current string `json:"current_version,omitempty"`
	// Workers are the workers that take work of this protocol, and Slots is the sum of
	// their slots.
	Workers []SeenWorker `json:"workers"`
	Slots   int          `json:"slots"`
	// Waiting is about how much work waits for a slot, and For is how long the oldest of it
	// has waited.
	Waiting int           `json:"waiting"`
	For     time.Duration `json:"for,omitempty"`
	Runs    []SeenRun     `json:"runs"`
}

// Server says which server it is.
func (s *State) Server() string {
	return fmt.Sprintf("Temporal at %s, namespace %s, protocol %d", s.Address, s.Namespace, s.Protocol)
}

// Work says how many workers there are, and how many slots they have together.
func (s *State) Work() string {
	return diag.Count(len(s.Workers), "worker") + ", " + diag.Count(s.Slots, "slot")
}

// Waits says what is waiting for a slot, and for how long.
func (s *State) Waits() string {
	if s.Waiting == 0 {
		return "nothing waits for a slot"
	}
	return fmt.Sprintf("%s for a slot, for up to %s", diag.Count(s.Waiting, "lease waits", "leases wait"), s.For.Round(time.Second))
}

// Progress says how many runs are in progress.
func (s *State) Progress() string {
	return diag.Count(len(s.Runs), "run in progress", "runs in progress")
}

// Named is the name of a worker, with its version.
func (s *State) Named(w SeenWorker) string {
	switch {
	case w.Version == "":
		return w.Name
	case w.Version == s.Current:
		return w.Name + ", version " + w.Version + ", which is current"
	}
	return w.Name + ", version " + w.Version
}

// SeenWorker is a worker that the server has heard from lately.
type SeenWorker struct {
	Name  string    `json:"name"`
	Slots int       `json:"slots"`
	Heard time.Time `json:"heard"`
	// Version is the deployment version for which it takes work; "" means none.
	Version string `json:"version,omitempty"`
}

// Ago says when the server last heard from the worker.
func (w SeenWorker) Ago(now time.Time) string {
	return fmt.Sprintf("%s ago", now.Sub(w.Heard).Round(time.Second))
}

// SeenRun is a run in progress.
type SeenRun struct {
	Run    string    `json:"run"`
	Since  time.Time `json:"since"`
	Leases int       `json:"leases"` // open leases: in progress, or waiting for a slot
	// Version is the version on which it stays; "" means none.
	Version string `json:"version,omitempty"`
	// Trouble is what holds it up; "" if nothing does.
	Trouble string `json:"trouble,omitempty"`
}

// Says says what holds up the run, or what is in progress in it.
func (r SeenRun) Says() string {
	if r.Trouble != "" {
		return "held up: " + r.Trouble
	}
	text := diag.Count(r.Leases, "open lease")
	if r.Version != "" {
		text += ", stays on version " + r.Version
	}
	return text
}

// HeldUp reports whether something holds up a run.
func (s *State) HeldUp() bool {
	return slices.ContainsFunc(s.Runs, func(r SeenRun) bool { return r.Trouble != "" })
}
