package web

import (
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
)

// TestCells: a cell tells every status, and that of an unchanged item is none that
// another one may have.
func TestCells(t *testing.T) {
	var x items
	x.grow(1)
	for s := journal.ItemPending; s <= journal.ItemUnchanged; s++ {
		x.set(0, s)
		if got := x.status(0); got != s || x.counts[s] != 1 {
			t.Errorf("%s is read as %s", s, got)
		}
		if s != journal.ItemUnchanged {
			x.attempt(0, 2)
		}
	}
	x.set(0, journal.ItemRunning)
	if x.status(0) != journal.ItemRunning || x.cells[0]>>classShift != 0 {
		t.Errorf("the cell is %b", x.cells[0])
	}
	for i := range 40 { // more classes than have a place
		x.set(0, journal.ItemFailed)
		x.class(0, string(rune('a'+i)))
		if x.status(0) != journal.ItemFailed {
			t.Fatalf("after %d classes the cell is %b", i+1, x.cells[0])
		}
	}
	if n := len(x.classes); n != maxClasses || x.tally().Failed != 1 {
		t.Errorf("%d classes, %+v", n, x.tally())
	}
	if timeline.Sign(event.Unchanged) == timeline.Sign(event.Skipped) || timeline.Sign(event.Unchanged) == timeline.Sign(event.Succeeded) {
		t.Error("the sign of an unchanged item is that of another status")
	}
}
