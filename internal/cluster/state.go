package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/diag"
)

// State is how workers and runs of a server stand, as bide-temporal tells it.
type State struct {
	Address   string `json:"address"`
	Namespace string `json:"namespace"`
	Protocol  int    `json:"protocol"`
	// Current is the deployment version on which runs begin; "" is workers without one.
	Current string `json:"current_version,omitempty"`
	// Workers are those that take work of the protocol, and Slots the sum of theirs.
	Workers []SeenWorker `json:"workers"`
	Slots   int          `json:"slots"`
	// Waiting is about how much waits for a slot, and For since when the oldest of it does.
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

// Waits says what waits for a slot, and for how long.
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

// SeenWorker is a worker that the server has heard of lately.
type SeenWorker struct {
	Name  string    `json:"name"`
	Slots int       `json:"slots"`
	Heard time.Time `json:"heard"`
	// Version is the deployment version as which it takes work; "" is none.
	Version string `json:"version,omitempty"`
}

// Ago says when the server heard of the worker.
func (w SeenWorker) Ago(now time.Time) string {
	return fmt.Sprintf("%s ago", now.Sub(w.Heard).Round(time.Second))
}

// SeenRun is a run in progress.
type SeenRun struct {
	Run    string    `json:"run"`
	Since  time.Time `json:"since"`
	Leases int       `json:"leases"` // that are open: worked off, or waiting for a slot
	// Version is the one on which it stays; "" is none.
	Version string `json:"version,omitempty"`
	// Trouble is what holds it up; "" is nothing.
	Trouble string `json:"trouble,omitempty"`
}

// Says tells what holds up the run, or what it has at work.
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
