package cluster

import (
	"slices"
	"time"
)

// State is how workers and runs of a server stand, as bide-temporal tells it.
type State struct {
	Address   string `json:"address"`
	Namespace string `json:"namespace"`
	Protocol  int    `json:"protocol"`
	// Workers are those that take work of the protocol, and Slots the sum of theirs.
	Workers []SeenWorker `json:"workers"`
	Slots   int          `json:"slots"`
	// Waiting is about how much waits for a slot, and For since when the oldest of it does.
	Waiting int           `json:"waiting"`
	For     time.Duration `json:"for,omitempty"`
	Runs    []SeenRun     `json:"runs"`
}

// SeenWorker is a worker that the server has heard of lately.
type SeenWorker struct {
	Name  string    `json:"name"`
	Slots int       `json:"slots"`
	Heard time.Time `json:"heard"`
}

// SeenRun is a run in progress.
type SeenRun struct {
	Run    string    `json:"run"`
	Since  time.Time `json:"since"`
	Leases int       `json:"leases"` // that are open: worked off, or waiting for a slot
	// Trouble is what holds it up; "" is nothing.
	Trouble string `json:"trouble,omitempty"`
}

// HeldUp reports whether something holds up a run.
func (s *State) HeldUp() bool {
	return slices.ContainsFunc(s.Runs, func(r SeenRun) bool { return r.Trouble != "" })
}
